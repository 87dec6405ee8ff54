#include "stages/safetensors.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <torch/torch.h>
#include <unistd.h>

#include "runner/stage.h"
#include "stages/safetensors_header.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

class File {
 public:
  File(const std::filesystem::path& path, int flags) : handle_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return handle_ >= 0; }
  int handle() const { return handle_; }
  int close() {
    const int handle = std::exchange(handle_, -1);
    return handle >= 0 ? ::close(handle) : 0;
  }

 private:
  int handle_;
};

/// Removes a half-written file unless it has been renamed away.
class Unfinished {
 public:
  explicit Unfinished(std::filesystem::path path) : path_(std::move(path)) {}
  ~Unfinished() { ::unlink(path_.c_str()); }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  const std::filesystem::path path_;
};

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT;
  throw StageError(full ? ErrorCode::kDiskFull : ErrorCode::kCannotWrite, "",
                   "cannot write '" + path.string() + "': " + std::strerror(error),
                   full ? "free some space, or choose another place with run.dir" : "");
}

bool write_all(const File& file, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(file.handle(), bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

bool read_all(const File& file, void* data, std::size_t size) {
  auto* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = ::read(file.handle(), bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& why) {
  throw StageError(ErrorCode::kDamagedWeights, "", "'" + path.string() + "' is no sound safetensors file: " + why,
                   "fetch or write the file again");
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<NamedTensors::Item> sorted(tensors.begin(), tensors.end());
  std::ranges::sort(sorted, {}, &NamedTensors::Item::first);
  SafetensorsHeader header{.entries = {}, .metadata = metadata};
  std::int64_t reached = 0;
  for (const auto& [name, tensor] : sorted) {
    const auto end = reached + static_cast<std::int64_t>(tensor.nbytes());
    header.entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec(), reached, end});
    reached = end;
  }
  const std::string text = to_text(header);
  const auto length = static_cast<std::uint64_t>(text.size());
  std::array<unsigned char, 8> prefix;
  for (std::size_t i = 0; i < 8; ++i) prefix[i] = static_cast<unsigned char>(length >> (8 * i));

  const std::filesystem::path beside = path.string() + ".part";
  ::unlink(beside.c_str());
  File file(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  if (!file.is_open()) cannot_write(path);
  const Unfinished unfinished(beside);
  bool good = write_all(file, prefix.data(), prefix.size()) && write_all(file, text.data(), text.size());
  for (const auto& [name, tensor] : sorted) {
    if (!good) break;
    const at::Tensor bytes = tensor.detach().cpu().contiguous();
    good = write_all(file, bytes.const_data_ptr(), bytes.nbytes());
  }
  good = good && ::fsync(file.handle()) == 0 && file.close() == 0 && ::rename(beside.c_str(), path.c_str()) == 0;
  if (!good) cannot_write(path);

  // The new name is in the folder's own blocks; a file system that cannot flush a folder has nothing to flush.
  const std::filesystem::path parent = path.parent_path();
  const File folder(parent.empty() ? "." : parent, O_RDONLY | O_DIRECTORY);
  if (folder.is_open()) ::fsync(folder.handle());
}

Safetensors read_safetensors(const std::filesystem::path& path) {
  const File file(path, O_RDONLY | O_NONBLOCK);  // does not wait for a writer, should the path name a pipe
  struct stat status = {};
  if (!file.is_open() || ::fstat(file.handle(), &status) != 0) {
    throw StageError(ErrorCode::kMissingWeights, "", "cannot read '" + path.string() + "': " + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) damaged(path, "it is no regular file");
  const auto size = static_cast<std::int64_t>(status.st_size);

  std::array<unsigned char, 8> prefix;
  if (size < 8 || !read_all(file, prefix.data(), prefix.size())) {
    damaged(path, "it has " + std::to_string(size) + " bytes, fewer than a header's length");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= static_cast<std::uint64_t>(prefix[i]) << (8 * i);
  if (length > static_cast<std::uint64_t>(kLongestSafetensorsHeader)) {
    damaged(path, "its header claims " + std::to_string(length) + " bytes, more than the 100000000 allowed");
  }
  if (length > static_cast<std::uint64_t>(size - 8)) {
    damaged(path, "its header claims " + std::to_string(length) + " bytes and the file has " + std::to_string(size));
  }
  std::string text(length, '\0');
  if (!read_all(file, text.data(), text.size())) damaged(path, "it ends early");

  Safetensors result;
  try {
    SafetensorsHeader header = parse_safetensors_header(text, size - 8 - static_cast<std::int64_t>(length));
    std::vector<NamedTensors::Item> items;
    for (const SafetensorsEntry& entry : header.entries) {
      at::Tensor tensor = torch::empty(entry.shape, entry.dtype);
      if (!read_all(file, tensor.mutable_data_ptr(), tensor.nbytes())) damaged(path, "it ends early");
      if (entry.dtype == at::kBool && tensor.view(at::kByte).gt(1).any().item<bool>()) {
        damaged(path, "the tensor '" + entry.name + "' holds what is neither true nor false");
      }
      items.emplace_back(entry.name, std::move(tensor));
    }
    std::ranges::sort(items, {}, &NamedTensors::Item::first);
    result.tensors = NamedTensors(std::move(items));
    result.metadata = std::move(header.metadata);
  } catch (const std::invalid_argument& error) {
    damaged(path, error.what());
  }
  return result;
}

}  // namespace stages
