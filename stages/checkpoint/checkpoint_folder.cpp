#include "stages/checkpoint/checkpoint_folder.h"

#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include <torch/types.h>

#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/checkpoint_files.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"
#include "stages/weights/safetensors.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using runner::check_checkpoint;
using runner::damaged_checkpoint;
using runner::kCheckpointManifest;
using runner::kCheckpointModel;
using runner::kCheckpointOptimizer;
using runner::kCheckpointState;
using runner::StageError;

constexpr std::size_t kLargestState = 64 << 20;

constexpr std::pair<const char*, std::int64_t TrainingState::*> kCounts[] = {
    {"step", &TrainingState::step},
    {"epoch", &TrainingState::epoch},
    {"batch", &TrainingState::batch},
    {"metrics", &TrainingState::metrics},
    {"threads", &TrainingState::threads}};
constexpr std::pair<const char*, json TrainingState::*> kParts[] = {
    {"scaler", &TrainingState::scaler}, {"schedule", &TrainingState::schedule},
    {"random", &TrainingState::random}, {"stopping", &TrainingState::stopping},
    {"plan", &TrainingState::plan},     {"epoch_so_far", &TrainingState::epoch_so_far}};

void require_finite(const json& value, const std::string& place) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    throw std::invalid_argument("the training state contains a number that is not finite: " +
                                place);
  }
  if (!value.is_structured()) return;
  for (const auto& [key, item] : value.items()) require_finite(item, place + "/" + key);
}

using Append = std::function<void(std::string_view)>;

/// Writes the file that `put` produces, and returns its manifest entry.
json write_file(const fs::path& path, runner::Storage& storage,
                const std::function<void(const Append&)>& put) {
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

/// Reads the state of a checkpoint that has been verified.
TrainingState read_state(const fs::path& folder) {
  const auto text = runner::real_file_system().read(folder / kCheckpointState, kLargestState);
  if (!text) damaged_checkpoint(folder, std::string(kCheckpointState) + " cannot be read");
  try {
    return state_from_json(*text);
  } catch (const std::runtime_error& error) {
    damaged_checkpoint(folder, error.what());
  }
}

std::int64_t tensor_bytes(const NamedTensors& tensors) {
  constexpr std::int64_t kHeader = 4096, kEntry = 256;  // bytes of JSON, without tensor names
  std::int64_t sum = kHeader;
  for (const auto& [name, tensor] : tensors) {
    sum += static_cast<std::int64_t>(tensor.nbytes() + 2 * name.size()) + kEntry;
  }
  return sum;
}

}  // namespace

std::string state_json(const TrainingState& state) {
  json document;
  for (const auto& [key, value] : kCounts) document[key] = state.*value;
  for (const auto& [key, part] : kParts) document[key] = state.*part;
  document["seed"] = state.seed;
  document["recipe_hash"] = state.recipe_hash;
  document["metric"] = state.metric ? json(*state.metric) : json();
  require_finite(document, "");
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

TrainingState state_from_json(std::string_view text) {
  const json document = runner::parse_json<json>(text);
  const runner::JsonFields fields(document, "its state.json");
  TrainingState state;
  for (const auto& [key, value] : kCounts) state.*value = fields.count(key);
  for (const auto& [key, part] : kParts)
    state.*part = fields.at(key).is_null() ? json() : fields.object(key);
  state.seed = fields.seed("seed");
  state.recipe_hash = fields.text("recipe_hash");
  if (!fields.at("metric").is_null()) state.metric = fields.number("metric");
  return state;
}

void write_checkpoint(const fs::path& folder, const TrainingState& state, runner::Storage& storage,
                      const BringTensor& bring) {
  json files;
  files[kCheckpointModel] = write_file(
      folder / kCheckpointModel, storage,
      [&](const Append& append) { put_safetensors(state.model, state.about, append, bring); });
  files[kCheckpointOptimizer] = write_file(
      folder / kCheckpointOptimizer, storage,
      [&](const Append& append) { put_safetensors(state.optimizer, {}, append, bring); });
  files[kCheckpointState] = write_file(folder / kCheckpointState, storage,
                                       [&](const Append& append) { append(state_json(state)); });
  const std::string manifest =
      json{{"schema", runner::kCheckpointSchema}, {"files", files}}.dump(2) + "\n";
  write_file(folder / kCheckpointManifest, storage,
             [&](const Append& append) { append(manifest); });
}

TrainingState read_checkpoint(const fs::path& folder, CheckpointPart part) {
  const auto contents =
      part == CheckpointPart::kShapes ? WeightContents::kShapes : WeightContents::kNumbers;
  return read_checkpoint(
      folder, [contents](const std::string&) { return contents; },
      /*with_optimizer=*/part == CheckpointPart::kAll);
}

TrainingState read_checkpoint(const fs::path& folder, const ContentsOf& contents_of,
                              bool with_optimizer) {
  check_checkpoint(folder);
  TrainingState state = read_state(folder);
  try {
    Safetensors model = read_safetensors(folder / kCheckpointModel, contents_of);
    state.model = std::move(model.tensors);
    state.about = std::move(model.metadata);
    if (with_optimizer)
      state.optimizer = read_safetensors(folder / kCheckpointOptimizer, contents_of).tensors;
  } catch (const StageError& error) {
    damaged_checkpoint(folder, error.what());
  }
  return state;
}

TrainingState read_checkpoint_state(const fs::path& folder) {
  check_checkpoint(folder, runner::CheckedFiles::kState);
  return read_state(folder);
}

std::int64_t checkpoint_bytes(const TrainingState& state) {
  constexpr std::int64_t kManifestBytes = 4096;
  std::int64_t about = 0;
  for (const auto& [key, text] : state.about)
    about += static_cast<std::int64_t>(2 * (key.size() + text.size()) + 16);
  return about + tensor_bytes(state.model) + tensor_bytes(state.optimizer) +
         static_cast<std::int64_t>(state_json(state).size()) + kManifestBytes;
}

}  // namespace stages
