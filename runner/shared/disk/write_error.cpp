#include "runner/shared/disk/write_error.h"

#include <cerrno>
#include <cstring>

namespace runner {

Diagnostic write_diagnostic(const std::filesystem::path& path, int error, ErrorCode otherwise) {
  const std::string place = "'" + path.string() + "': " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) {
    return {
        ErrorCode::kDiskFull, {}, "", "cannot write " + place, "free up space, or choose another place with run.dir"};
  }
  return {otherwise,
          {},
          "",
          (otherwise == ErrorCode::kCannotCreate ? "cannot create " : "cannot write ") + place,
          error == EFBIG ? "it reached the limit on file sizes: raise it with `ulimit -f`"
                         : "choose another place with run.dir"};
}

}  // namespace runner
