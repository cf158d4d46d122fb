"""What was found, in English; another language is another folder like this one."""

from tellwhy.words.english import (
    events as events,  # they enter their words beside those of others
    media as media,
    networks as networks,
    reading as reading,
)
