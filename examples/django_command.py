"""Django: a command on Django's own connection, for a cron that runs on every replica.

In a project of yours, `Command` lies in `management/commands/`, and settings and model are there already.
"""

import django
from digest import DSN, JOB, say
from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connection, models
from django.utils import timezone
from psycopg.conninfo import conninfo_to_dict

from pglock_inspect import run_with_lock

options = conninfo_to_dict(DSN)
postgresql = {"ENGINE": "django.db.backends.postgresql", "NAME": options.pop("dbname"), "OPTIONS": options}
settings.configure(DATABASES={"default": postgresql}, USE_TZ=True)
django.setup()


class Digest(models.Model):
    day = models.DateField(primary_key=True)

    class Meta:
        app_label = "newsletter"
        db_table = "digests"


class Command(BaseCommand):
    def handle(self, **_: object) -> None:
        connection.ensure_connection()
        say(ran=run_with_lock(connection.connection, JOB, self.send_digest))  # not inside of atomic()

    def send_digest(self) -> None:
        Digest.objects.get_or_create(day=timezone.localdate())  # and atomic() as you like


if __name__ == "__main__":
    Command().run_from_argv(["django_command.py", "send_digest"])
