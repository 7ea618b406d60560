set -eu
export PGDATA=/var/lib/postgresql/data
chown postgres "$PGDATA"
as() { runuser --user postgres -- "$@"; }
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    as initdb --encoding UTF8 --username "$POSTGRES_USER"
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    as pg_ctl start --wait --options "-c listen_addresses="
    as createdb --username "$POSTGRES_USER" "$POSTGRES_USER"
    as psql --username "$POSTGRES_USER" \
        --command "ALTER USER \"$POSTGRES_USER\" PASSWORD '$POSTGRES_PASSWORD'"
    for script in /docker-entrypoint-initdb.d/*.sql; do
        as psql --username "$POSTGRES_USER" --file "$script"
    done
    as pg_ctl stop --wait
fi
exec runuser --user postgres -- postgres -c "listen_addresses=*"
