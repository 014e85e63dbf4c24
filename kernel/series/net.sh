# Selftests of net that wait for states.
run scm_zc_notification
run scm_tx_timestamps
run scm_copy_back_random
exit $failed
