# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: pg_dump reads a table, and xz, which compresses it, sets the pace.
# Say: ^$
# Needs: postgres pg_dump xz
. ./lib.sh || exit 1
pair
DATA=$WORK/data; mkdir "$DATA"; chown nobody "$DATA" "$WORK"; chmod 755 "$WORK"
AS="setpriv --reuid nobody --clear-groups"
$AS initdb -D "$DATA" -A trust -U shop >/dev/null 2>&1
start here $AS postgres -D "$DATA" -k "$DATA" -h 10.77.0.1 -F
echo 'host all all 0.0.0.0/0 trust' >>"$DATA/pg_hba.conf"
listening here 5432; sleep 1
sql() { on there psql -qh 10.77.0.1 -U shop postgres -c "$1"; }
sql "create table sales as select i, md5(i::text) || md5((i + 1)::text) as text
	from generate_series(1, 1000000) i" >/dev/null
start there bash -c 'pg_dump -h 10.77.0.1 -U shop -t sales postgres | xz -3 >/dev/null'
sleep 1; measure here
