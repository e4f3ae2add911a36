# Every schedule on real compute, and swaps between them while a job runs: see swapping.h.
sc_library(sc_swapping SOURCES swapping.c ${CMAKE_SOURCE_DIR}/cli/client.c
  LIBS sc_lossjobs sc_proto sc_schedules PkgConfig::ZMQ)
target_compile_definitions(sc_swapping PRIVATE SC_BIN_DIR="${CMAKE_BINARY_DIR}/bin")

foreach(p 1 2 3 4)
  sc_loss_test(test_swap_${p} SOURCES test_swap.c LIBS sc_swapping ARGS ${p})
endforeach()
sc_loss_test(test_swap_requests LIBS sc_swapping)
foreach(p 2 3 4)
  sc_loss_test(test_schedules_${p} SOURCES test_schedules.c LIBS sc_swapping ARGS ${p})
endforeach()
