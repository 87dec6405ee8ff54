#include "runner/shared/weights/weights_file.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/weights/hugging_face_cache.h"
#include "runner/shared/weights/strict_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The names that libraries give their weights, the one to be taken first before those that hold the same.
constexpr std::array kModelFiles = {"model.safetensors",           "model.safetensors.index.json",
                                    "pytorch_model.bin",           "pytorch_model.bin.index.json",
                                    "open_clip_model.safetensors", "open_clip_pytorch_model.bin"};
constexpr std::array kAdapterFiles = {"adapter_model.safetensors", "adapter_model.bin"};

template <std::size_t N>
fs::path first_of(const std::array<const char*, N>& names, const fs::path& folder) {
  const auto name = std::ranges::find_if(names, [&](const char* name) { return is_there(folder / name); });
  return name == names.end() ? fs::path() : folder / *name;
}

/// The files in a folder that look like weights under a name of their own.
std::vector<std::string> other_weights(const fs::path& folder) {
  constexpr std::array kEndings = {".safetensors", ".bin", ".pth", ".pt", ".ckpt"};
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end; file.increment(error)) {
    const std::string ending = file->path().extension();
    if (std::ranges::find(kEndings, ending) != kEndings.end()) names.push_back(file->path().filename());
  }
  std::ranges::sort(names);
  return names;
}

fs::path find_in(const fs::path& folder) {
  const fs::path model = first_of(kModelFiles, folder), adapter = first_of(kAdapterFiles, folder);
  if (!model.empty() && !adapter.empty()) {
    throw StageError(ErrorCode::kMissingWeights, "'" + folder.string() + "' holds a model, '" +
                                                     model.filename().string() + "', and an adapter, '" +
                                                     adapter.filename().string() + "'")
        .with_help("name the file that you mean");
  }
  if (!model.empty() || !adapter.empty()) return model.empty() ? adapter : model;
  const std::vector<std::string> others = other_weights(folder);
  throw StageError(ErrorCode::kMissingWeights, "'" + folder.string() + "' holds no model.safetensors")
      .with_help(others.empty() ? "name a folder that a model or adapter was saved to, or a file of weights"
                                : "name the file: " + (folder / others.front()).string());
}

/// What fetches the weights that are not there: of a published CLIP, and of a network of timm, by the name under which
/// they are kept.
std::string how_to_get(const fs::path& missing) {
  const std::string name = missing.stem();
  const bool is_named = missing.extension() == ".safetensors";
  const std::string hub = is_named && name.starts_with("clip-vit-") ? "hf:openai/" + name
                          : is_named && name.ends_with("_in1k")     ? "hf:timm/" + name
                                                                    : "hf:ORG/NAME";
  return "name a file of weights, a folder that a model was saved to, or " + hub + ", which `retort data fetch " + hub +
         "` fetches";
}

}  // namespace

fs::path find_weights(const std::string& reference) {
  if (is_hub_reference(reference)) return find_in(hub_snapshot(reference));
  std::error_code error;
  if (is_there(reference)) return reference;
  if (fs::is_directory(reference, error)) return find_in(reference);
  throw StageError(ErrorCode::kMissingWeights, "there is no '" + reference + "'").with_help(how_to_get(reference));
}

std::optional<ConfigBeside> config_beside(const fs::path& weights) {
  const std::string name = weights.filename();
  fs::path path = weights.parent_path() / "config.json";
  if (name.starts_with("adapter_model.")) path.replace_filename("adapter_config.json");
  const fs::path of_open_clip = weights.parent_path() / "open_clip_config.json";
  if (name.starts_with("open_clip_") && is_there(of_open_clip)) path = of_open_clip;
  if (!is_there(path)) return {};
  constexpr std::uintmax_t kLongest = 64 << 20;
  constexpr std::size_t kDepth = 64;
  const auto refuse = [&](const std::string& why) {
    throw StageError(ErrorCode::kDamagedWeights, "'" + path.string() + "' " + why)
        .with_help("fetch or write the file again");
  };
  std::error_code error;
  if (fs::file_size(path, error) > kLongest) refuse("is longer than 64 MiB");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw StageError(ErrorCode::kMissingWeights, "cannot read '" + path.string() + "'");
  ConfigBeside result{path, {std::istreambuf_iterator<char>(file), {}}, {}};
  try {
    result.json = parse_strict_json(result.text, kDepth, "it");
    if (!result.json.is_object()) throw std::invalid_argument("it is not a JSON object");
  } catch (const std::invalid_argument& why) {
    refuse(std::string("is not a valid description of a model: ") + why.what());
  }
  return result;
}

}  // namespace runner
