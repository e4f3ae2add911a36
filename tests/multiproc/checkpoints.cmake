# Checkpoints: what is saved, loaded, refused, and what kills leave; see saves.h.
sc_library(sc_saves SOURCES saves.c LIBS sc_lossjobs)
target_compile_definitions(sc_saves PRIVATE SC_BIN_DIR="${CMAKE_BINARY_DIR}/bin")

foreach(layout 0 1 2 3 4)
  sc_loss_test(test_checkpoint_layouts_${layout} SOURCES test_checkpoint_layouts.c LIBS sc_saves
    ARGS ${layout})
endforeach()
sc_loss_test(test_checkpoint_faults LIBS sc_saves)
sc_loss_test(test_checkpoint_kills LIBS sc_saves)
sc_loss_test(test_checkpoint_saves LIBS sc_saves)
