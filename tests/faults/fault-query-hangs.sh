# SPDX-License-Identifier: GPL-2.0-only
# True: A query waits for a row that another session has locked, and never ends.
# Say: 10\.77\.0\.2:5432 does not answer.*lock that another session holds
# Needs: psql setpriv
. ./lib.sh || exit 1
pair
chmod 777 "$WORK"
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
user="setpriv --reuid postgres --regid postgres --clear-groups"
$user "$bin/initdb" -A trust -D "$WORK/data" >"$WORK/log" 2>&1
echo "host all all 10.77.0.0/24 trust" >>"$WORK/data/pg_hba.conf"
start there $user "$bin/postgres" -D "$WORK/data" -c listen_addresses=10.77.0.2,127.0.0.1 -c unix_socket_directories=
listening there 5432; sleep 0.5
local_psql() { on there psql -qh 127.0.0.1 -U postgres postgres "$@"; }
local_psql -c 'create table stock as select 1 as id, 0 as n' >>"$WORK/log" 2>&1
start there psql -qh 127.0.0.1 -U postgres postgres \
	-c 'begin; select * from stock for update; select pg_sleep(100); commit'
sleep 1
start here psql -qh 10.77.0.2 -U postgres postgres -c 'update stock set n = n + 1'
sleep 3; SECONDS_OF_ONE=6; measure "${AT:-here}"
