# SPDX-License-Identifier: GPL-2.0-only
# True: Commits wait for a standby that is stopped; other sessions wait for the rows that these keep.
# Say: at :5432 .*a standby that has not confirmed
# Needs: pgbench psql setpriv pg_basebackup
. ./lib.sh || exit 1
pair
chmod 777 "$WORK"
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
user="setpriv --reuid postgres --regid postgres --clear-groups"
serve() { # HOST ADDRESS DIRECTORY
	start "$1" $user "$bin/postgres" -D "$WORK/$3" -c "listen_addresses=$2" \
		-c unix_socket_directories= -c fsync=off
	listening "$1" 5432
}
$user "$bin/initdb" -A trust -D "$WORK/data" >"$WORK/log" 2>&1
printf 'host %s all 10.77.0.0/24 trust\n' all replication >>"$WORK/data/pg_hba.conf"
echo "synchronous_standby_names = '*'" >>"$WORK/data/postgresql.conf"
serve there 10.77.0.2 data; sleep 0.5
on here $user "$bin/pg_basebackup" -h 10.77.0.2 -U postgres -D "$WORK/standby" -R >>"$WORK/log" 2>&1
serve here 10.77.0.1 standby; STANDBY=$LAST
sleep 1
on there psql -qh 10.77.0.2 -U postgres \
	-c 'create table stock as select 1 as id, 0 as n' postgres >>"$WORK/log" 2>&1
echo 'update stock set n = n + 1;' >"$WORK/update.sql"
start here pgbench -nh 10.77.0.2 -U postgres -f "$WORK/update.sql" -c 3 -j 3 -R 10 -T 100 postgres
sleep 1
for process in $(pgrep -P "$STANDBY") "$STANDBY"; do kill -STOP "$process"; STARTED+=("$process"); done
sleep 2; measure there
