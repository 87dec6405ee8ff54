#include "stages/weights/file_sha256.h"

#include <cstring>

#include "runner/disk/digest.h"
#include "runner/stage/stage.h"

namespace stages {

std::string file_sha256(const std::filesystem::path& path) {
  runner::Digest digest;
  if (const int error = digest.update_from(path)) {
    throw runner::StageError(runner::ErrorCode::kMissingWeights,
                             "cannot read '" + path.string() + "': " + std::strerror(error));
  }
  return digest.finish();
}

}  // namespace stages
