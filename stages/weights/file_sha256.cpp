#include "stages/weights/file_sha256.h"

#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "runner/disk/descriptor.h"
#include "runner/disk/sha256.h"
#include "runner/stage/stage.h"

namespace stages {

std::string file_sha256(const std::filesystem::path& path) {
  const auto fail = [&] {
    throw runner::StageError(runner::ErrorCode::kMissingWeights,
                             "cannot read '" + path.string() + "': " + std::strerror(errno));
  };
  const runner::Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) fail();
  runner::Sha256 sha256;
  std::vector<char> piece(1 << 18);
  for (;;) {
    const ssize_t got = ::read(*file, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail();
    if (got == 0) return sha256.digest();
    sha256.update({piece.data(), static_cast<std::size_t>(got)});
  }
}

}  // namespace stages
