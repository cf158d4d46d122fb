"""What was found, in English; another language is another folder like this one."""

from tellwhy.words.english import media as media  # enters its words beside those of others
