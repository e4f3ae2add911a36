# Failures, hangs and bad input: the real programs with paced slices, see fleet.h.
sc_library(sc_fleet SOURCES actor.c boss.c failure.c fleet.c ${CMAKE_SOURCE_DIR}/cli/client.c
  LIBS sc_proto sc_formats sc_schedules sc_testsupport PkgConfig::CJSON PkgConfig::ZMQ cmocka)
target_compile_definitions(sc_fleet PRIVATE SC_BIN_DIR="${CMAKE_BINARY_DIR}/bin")

function(sc_fleet_test name)
  sc_test(${name} LABEL multiproc LIBS sc_fleet TIMEOUT 300 ${ARGN})
  add_dependencies(${name} stagecoach stagecoach-coordinator stagecoach-stage)
endfunction()

sc_fleet_test(test_failure_kill)
sc_fleet_test(test_failure_stop)
sc_fleet_test(test_failure_daemons)
sc_fleet_test(test_failure_run)
sc_fleet_test(test_hang_grid)
sc_fleet_test(test_bad_input_job)
sc_fleet_test(test_bad_input_ports)
sc_fleet_test(test_bad_input_daemons)
sc_fleet_test(test_failure_setup)
sc_fleet_test(test_worker)
sc_fleet_test(test_auto)
