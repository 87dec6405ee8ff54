#include "stages/checkpoint/checkpoint_folder.h"

#include <array>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>

#include <torch/torch.h>

#include "runner/disk/new_file.h"
#include "runner/disk/digest.h"
#include "runner/stage/checkpoint_name.h"
#include "stages/weights/safetensors.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using runner::ErrorCode;
using runner::kCheckpointManifest;
using runner::StageError;

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.json";
constexpr std::array kFiles = {kModel, kOptimizer, kState};
constexpr int kSchema = 1;
constexpr std::uintmax_t kLargestManifest = 64 << 10, kLargestState = 64 << 20;

[[noreturn]] void damaged(const fs::path& folder, const std::string& why) {
  throw StageError(ErrorCode::kDamagedWeights, "the checkpoint '" + folder.string() + "' is damaged: " + why)
      .with_help("use an earlier checkpoint");
}

using Append = std::function<void(std::string_view)>;

/// Writes a file by `put` and says what it holds, as the manifest does.
json write_file(const fs::path& path, runner::Storage& storage, const std::function<void(const Append&)>& put) {
  runner::NewFile file(path, storage);
  runner::Digest sha256;
  std::int64_t size = 0;
  put([&](std::string_view bytes) {
    sha256.update(bytes);
    size += static_cast<std::int64_t>(bytes.size());
    file.append(bytes);
  });
  return {{"size", size}, {"sha256", sha256.finish()}};
}

/// The bytes of a file, piece by piece. False where it cannot be read to its end.
bool read_pieces(const fs::path& path, const Append& append) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;  // a pipe or a device could block, or never end
  std::ifstream file(path, std::ios::binary);
  std::string piece(1 << 20, '\0');
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    append({piece.data(), static_cast<std::size_t>(file.gcount())});
  }
  return file.eof();
}

std::string read_text(const fs::path& folder, const char* name, std::uintmax_t limit) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(folder / name, error);
  if (error) damaged(folder, std::string("it has no ") + name);
  if (size > limit) damaged(folder, std::string(name) + " has " + std::to_string(size) + " bytes");
  std::string text;
  if (!read_pieces(folder / name, [&](std::string_view piece) { text += piece; })) {
    damaged(folder, std::string(name) + " cannot be read");
  }
  return text;
}

json read_manifest(const fs::path& folder) {
  const json manifest = json::parse(read_text(folder, kCheckpointManifest, kLargestManifest), nullptr, false);
  if (!manifest.is_object() || !manifest.contains("schema"))
    damaged(folder, "manifest.json is not one that Retort writes");
  if (manifest["schema"] != kSchema) {
    damaged(folder, "manifest.json is of the version " + manifest["schema"].dump() + ", this program reads 1");
  }
  const auto files = manifest.find("files");
  if (manifest.size() != 2 || files == manifest.end() || !files->is_object() || files->size() != kFiles.size()) {
    damaged(folder, "manifest.json is not one that Retort writes");
  }
  for (const char* name : kFiles) {
    if (!files->contains(name)) damaged(folder, std::string("manifest.json does not name ") + name);
    const json& file = (*files)[name];
    if (!file.is_object() || file.size() != 2 || !file.contains("size") || !file["size"].is_number_unsigned() ||
        !file.contains("sha256") || !file["sha256"].is_string()) {
      damaged(folder, std::string("manifest.json does not say what ") + name + " holds");
    }
  }
  return *files;
}

void check_size(const fs::path& folder, const char* name, const json& files) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(folder / name, error);
  if (error) damaged(folder, std::string("it has no ") + name);
  const auto wanted = files[name]["size"].get<std::uint64_t>();
  if (size != wanted) {
    damaged(folder, std::string(name) + " has " + std::to_string(size) + " bytes, not " + std::to_string(wanted));
  }
}

void check_digest(const fs::path& folder, const char* name, const json& files) {
  runner::Digest sha256;
  if (!read_pieces(folder / name, [&](std::string_view piece) { sha256.update(piece); })) {
    damaged(folder, std::string(name) + " cannot be read");
  }
  if (sha256.finish() != files[name]["sha256"]) {
    damaged(folder, std::string(name) + " is not what was written: its SHA-256 differs");
  }
}

TrainingState read_state(const fs::path& folder, const json& files) {
  for (const char* name : kFiles) check_size(folder, name, files);
  check_digest(folder, kState, files);
  const std::string text = read_text(folder, kState, kLargestState);
  try {
    return state_from_json(text);
  } catch (const std::runtime_error& error) {
    damaged(folder, error.what());
  }
}

std::int64_t tensor_bytes(const NamedTensors& tensors) {
  constexpr std::int64_t kHeader = 4096, kEntry = 256;  // of JSON; a tensor's name comes on top
  std::int64_t sum = kHeader;
  for (const auto& [name, tensor] : tensors) {
    sum += static_cast<std::int64_t>(tensor.nbytes() + 2 * name.size()) + kEntry;
  }
  return sum;
}

}  // namespace

void write_checkpoint(const fs::path& folder, const TrainingState& state, runner::Storage& storage) {
  json files;
  files[kModel] = write_file(folder / kModel, storage,
                             [&](const Append& append) { put_safetensors(state.model, state.about, append); });
  files[kOptimizer] = write_file(folder / kOptimizer, storage,
                                 [&](const Append& append) { put_safetensors(state.optimizer, {}, append); });
  files[kState] = write_file(folder / kState, storage, [&](const Append& append) { append(state_json(state)); });
  const std::string manifest = json{{"schema", kSchema}, {"files", files}}.dump(2) + "\n";
  write_file(folder / kCheckpointManifest, storage, [&](const Append& append) { append(manifest); });
}

TrainingState read_checkpoint(const fs::path& folder, CheckpointPart part) {
  const json files = read_manifest(folder);
  TrainingState state = read_state(folder, files);
  for (const char* name : {kModel, kOptimizer}) check_digest(folder, name, files);
  try {
    Safetensors model = read_safetensors(folder / kModel);
    state.model = std::move(model.tensors);
    state.about = std::move(model.metadata);
    if (part == CheckpointPart::kAll) state.optimizer = read_safetensors(folder / kOptimizer).tensors;
  } catch (const StageError& error) {
    damaged(folder, error.what());
  }
  return state;
}

TrainingState read_checkpoint_state(const fs::path& folder) { return read_state(folder, read_manifest(folder)); }

std::int64_t checkpoint_bytes(const TrainingState& state) {
  constexpr std::int64_t kManifestBytes = 4096;
  std::int64_t about = 0;
  for (const auto& [key, text] : state.about) about += static_cast<std::int64_t>(2 * (key.size() + text.size()) + 16);
  return about + tensor_bytes(state.model) + tensor_bytes(state.optimizer) +
         static_cast<std::int64_t>(state_json(state).size()) + kManifestBytes;
}

}  // namespace stages
