"""What assistants may ask: the commands of tellwhy as tools of the Model Context Protocol."""
