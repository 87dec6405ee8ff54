#include "stages/fetch/checksum.h"

#include <cstring>

#include "runner/shared/stage/stage.h"

namespace stages {

std::string sum_of_file(const std::filesystem::path& file, const Checksum& like,
                        const std::function<void(std::int64_t bytes)>& step) {
  runner::Digest digest(like.kind);
  if (like.is_git_blob) {
    std::error_code ignored;  // update_from() finds the same wrong
    const std::string head = "blob " + std::to_string(std::filesystem::file_size(file, ignored));
    digest.update({head.c_str(), head.size() + 1});
  }
  if (const int error = digest.update_from(file, step)) {
    throw runner::StageError(runner::ErrorCode::kMissingFile,
                             "cannot read '" + file.string() + "': " + std::strerror(error));
  }
  return digest.finish();
}

}  // namespace stages
