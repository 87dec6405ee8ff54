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
#include <torch/types.h>
#include <unistd.h>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "stages/tensor/tensor_memory.h"
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
  const auto type = std::ranges::find(kSavedTypes, item.second.scalar_type(),
                                      [](const auto& pair) { return pair.second; });
  if (type != kSavedTypes.end()) return type->first;
  throw StageError(ErrorCode::kStageFailed, "the tensor '" + item.first + "' has the type " +
                                                c10::toString(item.second.scalar_type()) +
                                                ", which safetensors files do not support");
}

[[noreturn]] void damaged_safetensors(const std::filesystem::path& path, const std::string& why) {
  throw StageError(ErrorCode::kDamagedWeights,
                   "'" + path.string() + "' is not a valid safetensors file: " + why)
      .with_help("fetch or write the file again");
}

/// An open file, with its header already read.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path)
      : path_(path),
        // O_NONBLOCK avoids waiting for a writer if the path is a pipe.
        file_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    struct stat status = {};
    if (!file_.is_open() || ::fstat(*file_, &status) != 0) {
      throw StageError(ErrorCode::kMissingWeights,
                       "cannot read '" + path.string() + "': " + std::strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) refuse("it is not a regular file");
    size_ = static_cast<std::int64_t>(status.st_size);
    read_header();
  }

  SafetensorsHeader& header() { return header_; }

  at::ScalarType type_of(const SafetensorsEntry& entry) const {
    const auto type =
        std::ranges::find(kSavedTypes, entry.type, [](const auto& pair) { return pair.first; });
    if (type != kSavedTypes.end()) return type->second;
    refuse("the tensor '" + entry.name + "' has the type " + std::string(name(entry.type)) +
           ", which LibTorch does not support");
  }

  /// Fills `numbers` with values of `entry`, starting at its byte `begin`.
  void read(const SafetensorsEntry& entry, std::int64_t begin, const at::Tensor& numbers) const {
    read_at(data_ + entry.begin + begin, numbers.mutable_data_ptr(), numbers.nbytes());
    if (entry.type == SafetensorsType::kBool && numbers.view(at::kByte).gt(1).any().item<bool>())
      refuse("the tensor '" + entry.name + "' has values other than true and false");
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { damaged_safetensors(path_, why); }

  void read_at(std::int64_t offset, void* data, std::size_t size) const {
    auto* bytes = static_cast<char*>(data);
    while (size > 0) {
      const ssize_t got = ::pread(*file_, bytes, size, offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) refuse(std::string("it cannot be read: ") + std::strerror(errno));
      if (got == 0) {
        refuse("it ends after " + std::to_string(offset) + " bytes but had " +
               std::to_string(size_) + " when it was opened: it was changed while being read");
      }
      bytes += got;
      size -= static_cast<std::size_t>(got);
      offset += got;
    }
  }

  void read_header() {
    std::array<unsigned char, 8> prefix;
    if (size_ < 8)
      refuse("it has " + std::to_string(size_) +
             " bytes, too few to contain the length of a header");
    read_at(0, prefix.data(), prefix.size());
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < 8; ++i) length |= static_cast<std::uint64_t>(prefix[i]) << (8 * i);
    if (length > static_cast<std::uint64_t>(kLongestSafetensorsHeader))
      refuse("its header claims " + std::to_string(length) +
             " bytes, more than the 100000000 allowed");
    // Enough for a hundred thousand tensors; parsing 100 MB takes half a minute.
    constexpr std::uint64_t kLongestOfModels = 16 << 20;
    if (length > kLongestOfModels)
      refuse("its header claims " + std::to_string(length) + " bytes, more than the " +
             std::to_string(kLongestOfModels) + " that a model needs");
    if (length > static_cast<std::uint64_t>(size_ - 8))
      refuse("its header claims " + std::to_string(length) + " bytes, but the file has " +
             std::to_string(size_));
    std::string text(length, '\0');
    read_at(8, text.data(), text.size());
    data_ = 8 + static_cast<std::int64_t>(length);
    try {
      header_ = parse_safetensors_header(text, size_ - data_);
    } catch (const std::invalid_argument& error) {
      refuse(error.what());
    }
  }

  const std::filesystem::path path_;
  const Descriptor file_;
  // In bytes: the file when it was opened, and everything before the tensors.
  std::int64_t size_ = 0, data_ = 0;
  SafetensorsHeader header_;
};

}  // namespace

at::Tensor bring_here(const NamedTensors::Item& item) {
  return item.second.detach().cpu().contiguous();
}

void put_safetensors(const NamedTensors& tensors,
                     const std::map<std::string, std::string>& metadata,
                     const std::function<void(std::string_view)>& append,
                     const BringTensor& bring) {
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
    const at::Tensor bytes = bring(item);
    if (bytes.defined()) append({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()});
  }
}

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata,
                       runner::Storage& storage) {
  runner::AtomicFile file(path, storage);
  put_safetensors(tensors, metadata, [&](std::string_view bytes) { file.append(bytes); });
  file.commit();
}

Safetensors read_safetensors(const std::filesystem::path& path, WeightContents contents) {
  return read_safetensors(path, [contents](const std::string&) { return contents; });
}

Safetensors read_safetensors(const std::filesystem::path& path, const ContentsOf& contents_of) {
  SafetensorsFile file(path);
  std::vector<NamedTensors::Item> items;
  for (const SafetensorsEntry& entry : file.header().entries) {
    const WeightContents contents = contents_of(entry.name);
    const auto options =
        at::TensorOptions(contents == WeightContents::kShapes ? at::kMeta : at::kCPU);
    at::Tensor tensor = torch::empty(entry.shape, options.dtype(file.type_of(entry)));
    if (contents == WeightContents::kNumbers) file.read(entry, 0, tensor);
    items.emplace_back(entry.name, std::move(tensor));
  }
  std::ranges::sort(items, {}, &NamedTensors::Item::first);
  return {NamedTensors(std::move(items)), std::move(file.header().metadata)};
}

void read_safetensors(const std::filesystem::path& path, const WeightSink& sink) {
  constexpr std::int64_t kPiece = 1 << 20;  // in bytes, a multiple of every type's size
  SafetensorsFile file(path);
  for (const SafetensorsEntry& entry : file.header().entries) {
    if (!sink.wants(entry.name)) continue;
    const at::ScalarType type = file.type_of(entry);
    const auto width = static_cast<std::int64_t>(c10::elementSize(type)),
               bytes = entry.end - entry.begin;
    const at::Tensor room = torch::empty({std::min(bytes, kPiece) / width}, type);
    for (std::int64_t begin = 0; begin < bytes; begin += kPiece) {
      const at::Tensor numbers = room.narrow(0, 0, std::min(bytes - begin, kPiece) / width);
      file.read(entry, begin, numbers);
      sink.take({entry.name, begin / width, numbers});
    }
  }
}

void read_safetensors_into(const NamedTensors& weights, const std::filesystem::path& path) {
  const torch::NoGradGuard no_graph;
  at::Tensor whole;  // of a weight with another layout than the file's
  const auto take = [&](const WeightPiece& piece) {
    const at::Tensor weight = weights.at(piece.tensor).detach();
    const std::int64_t end = piece.begin + piece.numbers.numel();
    if (weight.is_contiguous()) {
      weight.view(-1).slice(0, piece.begin, end).copy_(piece.numbers);
      return;
    }
    if (piece.begin == 0) whole = torch::empty({weight.numel()}, piece.numbers.options());
    whole.slice(0, piece.begin, end).copy_(piece.numbers);
    if (end == weight.numel()) weight.copy_(whole.view(weight.sizes()));
  };
  const auto wants = [&](const std::string& name) {
    return weights.contains(name) && has_memory(weights.at(name));
  };
  read_safetensors(path, {.wants = wants, .take = take});
}

}  // namespace stages
