# Helpers of every folder's CMakeLists.txt.

# sc_library(name SOURCES ... [LIBS ...] [OPTIONS ...]): one static library a folder.
function(sc_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS;OPTIONS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC sc_flags ${A_LIBS})
  target_compile_options(${name} PRIVATE ${A_OPTIONS})
endfunction()

# sc_program(name SOURCES ... [LIBS ...]): an executable in build/PRESET/bin.
function(sc_program name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE sc_flags ${A_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

# sc_test(name LABEL l [SOURCES ...] [LIBS ...] [TIMEOUT s] [ARGS ...]): one cmocka executable, one ctest.
# SOURCES defaults to name.c. The programs under test are found through SC_BIN_DIR.
function(sc_test name)
  cmake_parse_arguments(A "" "LABEL;TIMEOUT" "SOURCES;LIBS;ARGS" ${ARGN})
  if(NOT A_SOURCES)
    set(A_SOURCES ${name}.c)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE sc_flags ${A_LIBS} cmocka)
  target_compile_definitions(${name} PRIVATE SC_BIN_DIR="${CMAKE_BINARY_DIR}/bin"
    SC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name} ${A_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS ${A_LABEL} TIMEOUT ${A_TIMEOUT})
endfunction()

# sc_fuzzer(name SOURCES ... LIBS ...): a libFuzzer target, only in the fuzz preset.
function(sc_fuzzer name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS" ${ARGN})
  if(SC_FUZZ)
    add_executable(${name} ${A_SOURCES})
    target_link_libraries(${name} PRIVATE sc_flags ${A_LIBS})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  endif()
endfunction()
