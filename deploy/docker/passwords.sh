#!/bin/sh
# Invents the passwords that docker-compose.yml asks for and keeps them in .env of the folder it runs in, for this
# user alone. An .env that is there already is left as it is.
set -eu
set -C # no redirection below may replace a file
umask 077

# In letters, as ${} and quotes mean something in .env, in XML and to the Collector.
password() { od -An -N 24 -t x1 /dev/urandom | tr -d ' \n'; }

if [ -e .env ] || [ -L .env ]; then
  echo "passwords.sh: .env is there already; add what is missing by hand, or remove it to get new passwords" >&2
  exit 1
fi
for name in OWNER WRITER READER GRAFANA; do
  echo "GUA_${name}_PASSWORD=$(password)"
done > .env
echo "passwords.sh: wrote .env"
