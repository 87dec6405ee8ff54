# Divides sources into units that take about the same time to compile. The number of units is a multiple of the number of
# cores, so that no core is idle while the last units are compiled.

# The cost of a source: its size in bytes plus this constant.
set(retort_bytes_beside 4096)
# Approximate number of sources in a unit. Compared with 12, 48 needs a fifth less processor time and up to 1.2 GB of memory.
set(retort_sources_in_unit 48)

# Assigns the sources of `target` (paths relative to its folder) to units, the costliest first, each to the unit with the
# lowest cost so far. A source with SKIP_UNITY_BUILD_INCLUSION stays alone.
function(retort_divide_into_units target)
  set(by_cost "")
  foreach(source IN LISTS ARGN)
    file(SIZE ${source} bytes)
    # Sizes are rounded, so that a small change to a file does not move files to other units.
    math(EXPR cost "100000000 + (${bytes} / 1024) * 1024 + ${retort_bytes_beside}")
    list(APPEND by_cost "${cost}|${source}")
  endforeach()
  list(SORT by_cost ORDER DESCENDING)
  list(LENGTH by_cost count)
  math(EXPR units "(${count} + ${retort_sources_in_unit} - 1) / ${retort_sources_in_unit}")
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR units "(${units} + ${cores} - 1) / ${cores} * ${cores}")
  math(EXPR last "${units} - 1")
  foreach(unit RANGE ${last})
    set(cost_${unit} 0)
  endforeach()
  foreach(each IN LISTS by_cost)
    string(REGEX MATCH "^1([0-9]+)\\|(.*)$" each "${each}")
    set(cost ${CMAKE_MATCH_1})
    set(source ${CMAKE_MATCH_2})
    set(least 0)
    foreach(unit RANGE ${last})
      if(cost_${unit} LESS cost_${least})
        set(least ${unit})
      endif()
    endforeach()
    math(EXPR cost_${least} "${cost_${least}} + ${cost}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP unit_${least})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
