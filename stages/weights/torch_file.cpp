#include "stages/weights/torch_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <torch/types.h>
#include <unistd.h>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/printable.h"
#include "stages/weights/pickled_weights.h"
#include "stages/weights/stored_zip.h"

namespace stages {
namespace {

using runner::Descriptor;
using runner::ErrorCode;
using runner::StageError;

constexpr std::array kStorageClasses = {
    std::pair("float32", at::kFloat),
    std::pair("float64", at::kDouble),
    std::pair("float16", at::kHalf),
    std::pair("bfloat16", at::kBFloat16),
    std::pair("int64", at::kLong),
    std::pair("int32", at::kInt),
    std::pair("int16", at::kShort),
    std::pair("int8", at::kChar),
    std::pair("uint8", at::kByte),
    std::pair("bool", at::kBool),
    std::pair("complex64", at::kComplexFloat),
    std::pair("complex128", at::kComplexDouble),
    std::pair("uint16", at::kUInt16),
    std::pair("uint32", at::kUInt32),
    std::pair("uint64", at::kUInt64),
    std::pair("float8_e4m3fn", at::kFloat8_e4m3fn),
    std::pair("float8_e4m3fnuz", at::kFloat8_e4m3fnuz),
    std::pair("float8_e5m2", at::kFloat8_e5m2),
    std::pair("float8_e5m2fnuz", at::kFloat8_e5m2fnuz),
    std::pair("float8_e8m0fnu", at::kFloat8_e8m0fnu),
};

[[noreturn]] void refuse_torch_file(const std::string& why) { throw std::invalid_argument(why); }

/// Reads `place.size()` bytes at `offset` into `place`.
void read_at(int file, std::int64_t offset, std::span<char> place) {
  while (!place.empty()) {
    const ssize_t got = ::pread(file, place.data(), place.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_torch_file(std::string("it cannot be read: ") + std::strerror(errno));
    if (got == 0) refuse_torch_file("it ends after " + std::to_string(offset) + " bytes");
    place = place.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

std::int64_t bytes_of(const PickledStorage& storage) { return storage.count * storage.type->bytes; }

/// What to read from a file.
struct TorchFileRequest {
  WeightContents contents = WeightContents::kNumbers;
  std::string entry;                 ///< empty: the default choice
  const WeightSink* sink = nullptr;  ///< borrowed
};

/// Builds tensors from storages, which arrive one after another.
class TorchFileAssembly {
 public:
  /// The bytes of the pickle must outlive this object. `file_bytes` is the size of the file. If
  /// `wanted` has a sink, which is borrowed, tensors are passed to it and not kept.
  TorchFileAssembly(std::string_view pickle, std::int64_t file_bytes,
                    const TorchFileRequest& wanted)
      : TorchFileAssembly(read_pickle(pickle), file_bytes, wanted) {}
  TorchFileAssembly(Pickle pickle, std::int64_t file_bytes, const TorchFileRequest& wanted)
      : sink_(wanted.sink),
        pickle_(std::move(pickle)),
        found_(pickled_weights(pickle_, 4 * file_bytes + kSmall, wanted.entry)) {
    std::int64_t claimed = 0;
    for (const PickledWeight& weight : found_.weights) {
      auto& users = users_[weight.tensor.storage];
      users.push_back(&weight);
      if (users.size() > 1) continue;
      const std::int64_t bytes = bytes_of(storage(weight.tensor.storage));
      if (bytes > file_bytes - claimed)
        refuse_torch_file("its tensors claim more bytes than the file has");
      claimed += bytes;
    }
    for (std::size_t i = 0; i < pickle_.storages.size(); ++i) by_key_.emplace(storage(i).key, i);
    if (!sink_) return;
    for (auto& [index, users] : users_)
      std::erase_if(users,
                    [&](const PickledWeight* weight) { return !sink_->wants(weight->name); });
    std::erase_if(users_, [](const auto& storage) { return storage.second.empty(); });
  }

  const PickledStorage& storage(std::size_t index) const { return pickle_.storages[index]; }
  /// Returns the index of the storage with that key; nullopt if the pickle has none.
  std::optional<std::size_t> find(std::string_view key) const {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? std::nullopt : std::optional(found->second);
  }
  /// True if a tensor needs the storage.
  bool is_wanted(std::size_t index) const { return users_.contains(index); }
  std::vector<std::size_t> wanted() const {
    std::vector<std::size_t> indices;
    for (const auto& [index, users] : users_) indices.push_back(index);
    std::ranges::sort(indices);
    return indices;
  }

  /// Returns the tensors without their values.
  TorchFile outline() const {
    std::vector<NamedTensors::Item> items;
    for (const PickledWeight& weight : found_.weights) {
      const auto type = type_of(weight.tensor);
      items.emplace_back(weight.name,
                         at::empty(weight.tensor.sizes, at::TensorOptions(at::kMeta).dtype(type)));
    }
    return {NamedTensors(std::move(items)), found_.inside, found_.others};
  }

  /// Returns uninitialized memory for the bytes of a storage.
  at::Tensor allocate(std::size_t index) const {
    return at::empty({bytes_of(storage(index))}, at::kByte);
  }

  void take(std::size_t index, const at::Tensor& bytes) {
    const auto users = users_.extract(index);
    for (const PickledWeight* weight : users.mapped()) {
      at::Tensor tensor = tensor_of(*weight, bytes, users.mapped().size() == 1);
      if (sink_) sink_->take({weight->name, 0, tensor.view(-1)});
      else items_.emplace_back(weight->name, std::move(tensor));
    }
  }

  TorchFile finish() {
    if (!users_.empty()) {
      refuse_torch_file("it lacks the storage '" +
                        runner::printable_ascii(storage(wanted().front()).key) + "'");
    }
    std::ranges::sort(items_, {}, &NamedTensors::Item::first);
    return {NamedTensors(std::move(items_)), found_.inside, found_.others};
  }

 private:
  // Each tensor that shares a storage gets its own memory. Small files may therefore need memory of
  // many times their size, up to this many bytes.
  static constexpr std::int64_t kSmall = 16 << 20;

  static at::ScalarType type_of(const PickledTensor& tensor) {
    return std::ranges::find(kStorageClasses, tensor.type->name,
                             [](const auto& pair) { return std::string_view(pair.first); })
        ->second;
  }

  static at::Tensor tensor_of(const PickledWeight& weight, const at::Tensor& bytes,
                              bool is_only_one) {
    const PickledTensor& tensor = weight.tensor;
    const at::ScalarType type = type_of(tensor);
    const at::Tensor numbers =
        bytes.narrow(0, 0, bytes.numel() / tensor.type->bytes * tensor.type->bytes).view(type);
    if (type == at::kBool && bytes.gt(1).any().item<bool>()) {
      refuse_torch_file("the tensor '" + runner::printable_ascii(weight.name) +
                        "' has values other than true and false");
    }
    // Returns an independent tensor that does not refer to a base.
    if (weight.is_dense && is_only_one) return numbers.view(tensor.sizes).variable_data();
    return numbers.as_strided(tensor.sizes, tensor.strides, tensor.offset)
        .clone(at::MemoryFormat::Contiguous);
  }

  const WeightSink* const sink_;
  Pickle pickle_;
  PickledWeights found_;
  // The tensors of each storage that has not arrived yet.
  std::unordered_map<std::size_t, std::vector<const PickledWeight*>> users_;
  std::unordered_map<std::string_view, std::size_t> by_key_;
  std::vector<NamedTensors::Item> items_;
};

std::span<char> bytes_in(const at::Tensor& tensor) {
  return {static_cast<char*>(tensor.mutable_data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

// --- the zip archive

/// Returns the archive's folder that contains data.pkl, ending in a slash.
std::string top_folder(const std::map<std::string, StoredEntry>& entries) {
  constexpr std::string_view kPickle = "/data.pkl";
  std::string top;
  for (const auto& [name, entry] : entries) {
    if (!name.ends_with(kPickle) || name.find('/') + kPickle.size() != name.size()) continue;
    if (!top.empty()) refuse_torch_file("it has more than one data.pkl");
    top = name.substr(0, name.find('/') + 1);
  }
  if (top.empty()) refuse_torch_file("it is a zip archive without a data.pkl");
  return top;
}

/// Returns the size of an entry. Throws if it does not exist or is compressed.
std::int64_t stored_size(const std::map<std::string, StoredEntry>& entries,
                         const std::string& name) {
  const auto entry = entries.find(name);
  if (entry == entries.end())
    refuse_torch_file("it lacks the entry '" + runner::printable_ascii(name) + "'");
  if (!entry->second.is_stored)
    refuse_torch_file("its entry '" + runner::printable_ascii(name) +
                      "' is compressed or encrypted, which torch.save does not do");
  return entry->second.size;
}

TorchFile from_zip(int file, std::int64_t file_bytes, const TorchFileRequest& wanted_of_file) {
  const std::map<std::string, StoredEntry> entries = list_zip(file);
  const std::string top = top_folder(entries);
  const auto text_at = [&](const std::string& name, std::size_t most) {
    const std::int64_t size = stored_size(entries, top + name);
    if (size > static_cast<std::int64_t>(most) || size > file_bytes)
      refuse_torch_file("its entry '" + runner::printable_ascii(top + name) + "' is too long");
    return std::string(static_cast<std::size_t>(size), '\0');
  };
  std::string pickle = text_at("data.pkl", kLongestPickle), order;
  if (entries.contains(top + "byteorder")) order = text_at("byteorder", 16);
  const auto text_of = [&](const std::string& name) -> std::span<char> {
    if (name == top + "data.pkl") return pickle;
    return name == top + "byteorder" ? std::span<char>(order) : std::span<char>();
  };
  read_zip(file, text_of, [](const std::string&) {});
  if (!order.empty() && order != "little")
    refuse_torch_file("its values have the byte order '" + runner::printable_ascii(order) +
                      "', not little");

  TorchFileAssembly assembly(pickle, file_bytes, wanted_of_file);
  if (wanted_of_file.contents == WeightContents::kShapes) return assembly.outline();
  std::unordered_map<std::string, std::size_t> wanted;
  for (const std::size_t index : assembly.wanted()) {
    const std::string name = top + "data/" + std::string(assembly.storage(index).key);
    const std::int64_t size = stored_size(entries, name);
    if (size != bytes_of(assembly.storage(index))) {
      refuse_torch_file("its entry '" + runner::printable_ascii(name) + "' has " +
                        std::to_string(size) + " bytes, not " +
                        std::to_string(bytes_of(assembly.storage(index))));
    }
    if (size == 0) assembly.take(index, assembly.allocate(index));
    else wanted.emplace(name, index);
  }
  at::Tensor bytes;
  const auto place_of = [&](const std::string& name) -> std::span<char> {
    const auto index = wanted.find(name);
    if (index == wanted.end()) return {};
    bytes = assembly.allocate(index->second);
    return bytes_in(bytes);
  };
  read_zip(file, place_of, [&](const std::string& name) {
    assembly.take(wanted.extract(name).mapped(), std::exchange(bytes, {}));
  });
  return assembly.finish();
}

// --- the stream

/// Reads consecutive pickles.
class Pickles {
 public:
  explicit Pickles(std::string_view bytes) : bytes_(bytes) {}

  Pickle next() {
    Pickle pickle = read_pickle(bytes_.substr(at_));
    at_ += pickle.length;
    return pickle;
  }
  std::size_t at() const { return at_; }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

void check_stream_start(Pickles& pickles) {
  constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  constexpr std::int64_t kProtocol = 1001;
  const Pickle magic = pickles.next();
  const auto* number = std::get_if<PickledLong>(&magic.value->data);
  if (!number || number->bytes != kMagic)
    refuse_torch_file("it is a pickle that torch.save did not write");
  const Pickle protocol = pickles.next();
  const auto* version = std::get_if<std::int64_t>(&protocol.value->data);
  if (!version || *version != kProtocol)
    refuse_torch_file("it has a protocol that torch.save does not write");
  const Pickle about = pickles.next();
  const auto* map = std::get_if<PickledMap>(&about.value->data);
  if (!map) refuse_torch_file("it does not record what machine wrote it");
  for (const auto& [key, value] : map->entries) {
    const auto* name = std::get_if<std::string_view>(&key->data);
    const auto* holds = std::get_if<bool>(&value->data);
    if (name && *name == "little_endian" && (!holds || !*holds))
      refuse_torch_file("its values have the byte order 'big', not little");
  }
}

TorchFile from_stream(int file, std::int64_t file_bytes, const TorchFileRequest& wanted_of_file) {
  std::string start(static_cast<std::size_t>(std::min<std::int64_t>(file_bytes, kLongestPickle)),
                    '\0');
  read_at(file, 0, start);
  Pickles pickles(start);
  check_stream_start(pickles);
  TorchFileAssembly assembly(pickles.next(), file_bytes, wanted_of_file);
  if (wanted_of_file.contents == WeightContents::kShapes) return assembly.outline();
  const Pickle keys = pickles.next();
  const auto* list = std::get_if<PickledList>(&keys.value->data);
  if (!list) refuse_torch_file("it does not list its storages");
  auto at = static_cast<std::int64_t>(pickles.at());
  for (const PickledValue* item : list->items) {
    const auto* key = std::get_if<std::string_view>(&item->data);
    const std::optional<std::size_t> index = key ? assembly.find(*key) : std::nullopt;
    if (!index) refuse_torch_file("it lists a storage that no tensor uses");
    const std::string name = "its storage '" + runner::printable_ascii(*key) + "'";
    std::array<unsigned char, 8> written;
    if (file_bytes - at < 8) refuse_torch_file("it ends before " + name);
    read_at(file, at, {reinterpret_cast<char*>(written.data()), written.size()});
    at += 8;
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < 8; ++i) count |= std::uint64_t{written[i]} << (8 * i);
    const PickledStorage& storage = assembly.storage(*index);
    if (count != static_cast<std::uint64_t>(storage.count)) {
      refuse_torch_file(name + " has " + std::to_string(count) + " elements, not " +
                        std::to_string(storage.count));
    }
    if (bytes_of(storage) > file_bytes - at) refuse_torch_file("it ends within " + name);
    if (assembly.is_wanted(*index)) {
      const at::Tensor bytes = assembly.allocate(*index);
      read_at(file, at, bytes_in(bytes));
      assembly.take(*index, bytes);
    }
    at += bytes_of(storage);
  }
  return assembly.finish();
}

bool is_zip(std::string_view start) { return start.starts_with("PK\3\4"); }
bool is_tar(std::string_view start) {
  return start.size() >= 262 && start.substr(257, 5) == "ustar";
}

/// Returns "it shrank from 120 to 80 bytes while being read"; empty if the file did not shrink.
std::string shrinking(int file, std::int64_t size) {
  struct stat status = {};
  if (::fstat(file, &status) != 0 || status.st_size >= size) return "";
  return "it shrank from " + std::to_string(size) + " to " + std::to_string(status.st_size) +
         " bytes while being read";
}

TorchFile read(const std::filesystem::path& path, const TorchFileRequest& wanted) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  if (!file.is_open() || ::fstat(*file, &status) != 0) {
    throw StageError(ErrorCode::kMissingWeights,
                     "cannot read '" + path.string() + "': " + std::strerror(errno));
  }
  const auto size = static_cast<std::int64_t>(status.st_size);
  try {
    if (!S_ISREG(status.st_mode)) refuse_torch_file("it is not a regular file");
    std::string start(static_cast<std::size_t>(std::min<std::int64_t>(size, 512)), '\0');
    read_at(*file, 0, start);
    if (is_tar(start))
      refuse_torch_file("it is a tar archive, which only the first versions of torch wrote");
    return is_zip(start) ? from_zip(*file, size, wanted) : from_stream(*file, size, wanted);
  } catch (const ForbiddenPickle& error) {
    throw StageError(
        ErrorCode::kDamagedWeights,
        "'" + path.string() + "' contains more than tensors and plain containers: " + error.what())
        .with_help(
            "code in a file is never run: get the weights as a safetensors file, or, if you trust "
            "its author, load it in Python and save only its state_dict");
  } catch (const WeightsChoice& error) {
    throw StageError(ErrorCode::kOptionConflict, "'" + path.string() + "' " + error.what())
        .with_help(error.entries.empty()
                       ? "leave weights_entry out"
                       : "choose one: weights_entry=" + runner::printable_ascii(error.entries[0]));
  } catch (const std::invalid_argument& error) {
    const std::string shrunk = shrinking(*file, size);
    throw StageError(ErrorCode::kDamagedWeights, "'" + path.string() +
                                                     "' is not a valid torch.save file: " +
                                                     (shrunk.empty() ? error.what() : shrunk))
        .with_help("fetch or write the file again");
  }
}

}  // namespace

bool is_torch_file(std::string_view start) {
  return is_zip(start) || is_tar(start) || start.starts_with('\x80');
}

TorchFile read_torch_file(const std::filesystem::path& path, WeightContents contents,
                          const std::string& entry) {
  return read(path, {contents, entry});
}

void read_torch_file(const std::filesystem::path& path, const WeightSink& sink,
                     const std::string& entry) {
  read(path, {WeightContents::kNumbers, entry, &sink});
}

}  // namespace stages
