# Units of several sources each, which take about as long to compile: a multiple of the cores, so that none of them idles
# while the last are compiled.

# A source costs about its bytes, and what every source costs: this many.
set(retort_bytes_beside 4096)
# So many sources to a unit, about: by 48 in place of 12 they take a fifth less processor time, and up to 1.2 GB.
set(retort_sources_in_unit 48)

# Puts the sources of `target` (paths from its folder) into units, the costliest first, each into the unit that costs
# least so far. One with SKIP_UNITY_BUILD_INCLUSION stays alone.
function(retort_divide_into_units target)
  set(by_cost "")
  foreach(source IN LISTS ARGN)
    file(SIZE ${source} bytes)
    # In steps, so that a small change of a file moves none to another unit.
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
