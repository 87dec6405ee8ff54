# Writes OUT, which defines runner::build_id(): the version and a hash of the sources of both programs.
file(GLOB_RECURSE files ${ROOT}/runner/*.cpp ${ROOT}/runner/*.h ${ROOT}/stages/*.cpp ${ROOT}/stages/*.h
     ${ROOT}/stages/*.cu ${ROOT}/schemas/*.json)
list(SORT files)
set(hashes "")
foreach(file IN LISTS files)
  file(SHA256 ${file} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 sum "${hashes}")
string(SUBSTRING ${sum} 0 12 sum)
set(text "#include \"runner/shared/protocol/event.h\"

namespace runner {

std::string_view build_id() { return \"${VERSION}-${sum}\"; }

}  // namespace runner
")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT "${old}" STREQUAL "${text}")
  file(WRITE ${OUT} "${text}")
endif()
