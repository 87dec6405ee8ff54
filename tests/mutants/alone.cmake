# Included by the top-level project when run.py configures it: compiles the files that mutants change one by one,
# outside the batches of the unity build, so that a mutant rebuilds only one file.
function(compile_alone)
  foreach(file IN LISTS RETORT_ALONE)
    string(REGEX MATCH "^[a-z]+" half ${file})
    if(half STREQUAL stages AND NOT RETORT_STAGES)
      continue()
    endif()
    set_source_files_properties(${CMAKE_SOURCE_DIR}/${file} DIRECTORY ${CMAKE_SOURCE_DIR}/${half}
                                PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL compile_alone)
