#include "stages/weights/safetensors.h"

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

#include "runner/disk/descriptor.h"
#include "runner/disk/new_file.h"
#include "runner/stage/stage.h"
#include "stages/weights/safetensors_header.h"

namespace stages {
namespace {

using runner::Descriptor;
using runner::ErrorCode;
using runner::StageError;

constexpr std::array kSavedTypes = {
    std::pair(SafetensorsType::kBool, at::kBool),
    std::pair(SafetensorsType::kU8, at::kByte),
    std::pair(SafetensorsType::kI8, at::kChar),
    std::pair(SafetensorsType::kF8E5M2, at::kFloat8_e5m2),
    std::pair(SafetensorsType::kF8E4M3, at::kFloat8_e4m3fn),
    std::pair(SafetensorsType::kF8E8M0, at::kFloat8_e8m0fnu),
    std::pair(SafetensorsType::kF8E4M3Fnuz, at::kFloat8_e4m3fnuz),
    std::pair(SafetensorsType::kF8E5M2Fnuz, at::kFloat8_e5m2fnuz),
    std::pair(SafetensorsType::kI16, at::kShort),
    std::pair(SafetensorsType::kU16, at::kUInt16),
    std::pair(SafetensorsType::kF16, at::kHalf),
    std::pair(SafetensorsType::kBF16, at::kBFloat16),
    std::pair(SafetensorsType::kI32, at::kInt),
    std::pair(SafetensorsType::kU32, at::kUInt32),
    std::pair(SafetensorsType::kF32, at::kFloat),
    std::pair(SafetensorsType::kC64, at::kComplexFloat),
    std::pair(SafetensorsType::kF64, at::kDouble),
    std::pair(SafetensorsType::kI64, at::kLong),
    std::pair(SafetensorsType::kU64, at::kUInt64),
};

SafetensorsType type_of(const NamedTensors::Item& item) {
  const auto type =
      std::ranges::find(kSavedTypes, item.second.scalar_type(), [](const auto& pair) { return pair.second; });
  if (type != kSavedTypes.end()) return type->first;
  throw StageError(ErrorCode::kStageFailed, "the tensor '" + item.first + "' is of the type " +
                                                c10::toString(item.second.scalar_type()) +
                                                ", which safetensors files do not hold");
}

bool read_all(const Descriptor& file, void* data, std::size_t size) {
  auto* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = ::read(*file, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

[[noreturn]] void damaged_safetensors(const std::filesystem::path& path, const std::string& why) {
  throw StageError(ErrorCode::kDamagedWeights, "'" + path.string() + "' is not a valid safetensors file: " + why)
      .with_help("fetch or write the file again");
}

}  // namespace

void put_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata,
                     const std::function<void(std::string_view)>& append) {
  std::vector<std::pair<SafetensorsType, NamedTensors::Item>> sorted;
  for (const NamedTensors::Item& item : tensors) sorted.emplace_back(type_of(item), item);
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second.first < b.second.first;
  });
  SafetensorsHeader header{.entries = {}, .metadata = metadata};
  std::int64_t reached = 0;
  for (const auto& [type, item] : sorted) {
    const auto end = reached + static_cast<std::int64_t>(item.second.nbytes());
    header.entries.push_back({item.first, type, item.second.sizes().vec(), reached, end});
    reached = end;
  }
  const std::string text = to_text(header);
  std::string prefix;
  for (int i = 0; i < 8; ++i) prefix += static_cast<char>(text.size() >> (8 * i));
  append(prefix + text);
  for (const auto& [type, item] : sorted) {
    const at::Tensor bytes = item.second.detach().cpu().contiguous();
    append({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()});
  }
}

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata, runner::Storage& storage) {
  runner::AtomicFile file(path, storage);
  put_safetensors(tensors, metadata, [&](std::string_view bytes) { file.append(bytes); });
  file.commit();
}

Safetensors read_safetensors(const std::filesystem::path& path, WeightContents contents) {
  const Descriptor file(::open(
      path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // does not wait for a writer, should the path name a pipe
  struct stat status = {};
  if (!file.is_open() || ::fstat(*file, &status) != 0) {
    throw StageError(ErrorCode::kMissingWeights, "cannot read '" + path.string() + "': " + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) damaged_safetensors(path, "it is not a regular file");
  const auto size = static_cast<std::int64_t>(status.st_size);

  std::array<unsigned char, 8> prefix;
  if (size < 8 || !read_all(file, prefix.data(), prefix.size())) {
    damaged_safetensors(path, "it has " + std::to_string(size) + " bytes, fewer than a header's length");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= static_cast<std::uint64_t>(prefix[i]) << (8 * i);
  if (length > static_cast<std::uint64_t>(kLongestSafetensorsHeader)) {
    damaged_safetensors(path,
                        "its header claims " + std::to_string(length) + " bytes, more than the 100000000 allowed");
  }
  if (length > static_cast<std::uint64_t>(size - 8)) {
    damaged_safetensors(
        path, "its header claims " + std::to_string(length) + " bytes and the file has " + std::to_string(size));
  }
  std::string text(length, '\0');
  if (!read_all(file, text.data(), text.size())) damaged_safetensors(path, "it ends early");

  Safetensors result;
  try {
    SafetensorsHeader header = parse_safetensors_header(text, size - 8 - static_cast<std::int64_t>(length));
    std::vector<NamedTensors::Item> items;
    for (const SafetensorsEntry& entry : header.entries) {
      const auto type = std::ranges::find(kSavedTypes, entry.type, [](const auto& pair) { return pair.first; });
      if (type == kSavedTypes.end()) {
        damaged_safetensors(path, "the tensor '" + entry.name + "' is of the type " + std::string(name(entry.type)) +
                                      ", which LibTorch has no numbers for");
      }
      if (contents == WeightContents::kShapes) {
        items.emplace_back(entry.name, torch::empty(entry.shape, at::TensorOptions(at::kMeta).dtype(type->second)));
        continue;
      }
      at::Tensor tensor = torch::empty(entry.shape, type->second);
      if (!read_all(file, tensor.mutable_data_ptr(), tensor.nbytes())) damaged_safetensors(path, "it ends early");
      if (entry.type == SafetensorsType::kBool && tensor.view(at::kByte).gt(1).any().item<bool>()) {
        damaged_safetensors(path, "the tensor '" + entry.name + "' holds what is neither true nor false");
      }
      items.emplace_back(entry.name, std::move(tensor));
    }
    std::ranges::sort(items, {}, &NamedTensors::Item::first);
    result.tensors = NamedTensors(std::move(items));
    result.metadata = std::move(header.metadata);
  } catch (const std::invalid_argument& error) {
    damaged_safetensors(path, error.what());
  }
  return result;
}

}  // namespace stages
