"""What was found, in English; another language is another folder like this one."""
