#include "runner/shared/weights/weights_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/error/stage_error.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/weights/strict_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The file names that libraries use for weights, in order of preference among files with the same
// contents.
constexpr std::array kModelFiles = {"model.safetensors",           "model.safetensors.index.json",
                                    "pytorch_model.bin",           "pytorch_model.bin.index.json",
                                    "open_clip_model.safetensors", "open_clip_pytorch_model.bin"};
constexpr std::array kAdapterFiles = {"adapter_model.safetensors", "adapter_model.bin"};

template <std::size_t N>
fs::path first_of(const std::array<const char*, N>& names, const fs::path& folder) {
  const auto name =
      std::ranges::find_if(names, [&](const char* name) { return is_there(folder / name); });
  return name == names.end() ? fs::path() : folder / *name;
}

/// Returns the files in a folder that look like weights with custom names.
std::vector<std::string> other_weights(const fs::path& folder) {
  constexpr std::array kEndings = {".safetensors", ".bin", ".pth", ".pt", ".ckpt"};
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    const std::string ending = file->path().extension();
    if (std::ranges::find(kEndings, ending) != kEndings.end())
      names.push_back(file->path().filename());
  }
  std::ranges::sort(names);
  return names;
}

fs::path find_in(const fs::path& folder) {
  const fs::path model = first_of(kModelFiles, folder), adapter = first_of(kAdapterFiles, folder);
  if (!model.empty() && !adapter.empty()) {
    throw StageError(ErrorCode::kMissingWeights,
                     "'" + folder.string() + "' contains a model, '" + model.filename().string() +
                         "', and an adapter, '" + adapter.filename().string() + "'")
        .with_help("specify the one that you mean");
  }
  if (!model.empty() || !adapter.empty()) return model.empty() ? adapter : model;
  const std::vector<std::string> others = other_weights(folder);
  throw StageError(ErrorCode::kMissingWeights,
                   "'" + folder.string() + "' contains no model.safetensors")
      .with_help(others.empty() ? "give a folder with a saved model or adapter, or a weights file"
                                : "name the file: " + (folder / others.front()).string());
}

/// Returns advice on how to download missing weights. Recognizes published CLIP and timm models by
/// the name of the missing file.
std::string how_to_get(const fs::path& missing) {
  const std::string name = missing.stem();
  const bool is_named = missing.extension() == ".safetensors";
  const std::string hub = is_named && name.starts_with("clip-vit-") ? "hf:openai/" + name
                          : is_named && name.ends_with("_in1k")     ? "hf:timm/" + name
                                                                    : "hf:ORG/NAME";
  return "give a weights file, a folder with a saved model, or " + hub +
         ", which `retort data fetch " + hub + "` fetches";
}

}  // namespace

fs::path find_weights(const std::string& reference) {
  if (is_hub_reference(reference)) return find_in(hub_snapshot(reference));
  std::error_code error;
  if (is_there(reference)) return reference;
  if (fs::is_directory(reference, error)) return find_in(reference);
  throw StageError(ErrorCode::kMissingWeights, "there is no '" + reference + "'")
      .with_help(how_to_get(reference));
}

std::optional<ConfigBeside> config_next_to(const fs::path& weights) {
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
  std::ifstream file = open_regular(path, std::ios::binary);
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

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHubPrefix = "hf:";

struct HubModel {
  std::string organization, name;  ///< the oldest models have no organization
  std::string revision = "main";
};

/// True if `text` is a valid user or model name on the Hub. Such names cannot disguise a path.
bool is_name(std::string_view text) {
  constexpr std::size_t kLongest = 96;
  const auto is_allowed = [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, is_allowed) &&
         text[0] != '.' && text[0] != '-' && text.back() != '.' && text.back() != '-' &&
         text.find("--") == text.npos && text.find("..") == text.npos;
}

/// True if `text` consists of names separated by slashes, such as "refs/pr/1".
bool is_revision(std::string_view text) {
  for (std::size_t slash; (slash = text.find('/')) != text.npos; text.remove_prefix(slash + 1)) {
    if (!is_name(text.substr(0, slash))) return false;
  }
  return is_name(text);
}

bool is_commit(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == 40 && std::ranges::all_of(text, is_digit);
}

std::string text(const HubModel& model) {
  const bool is_main = model.revision == HubModel().revision;
  return std::string(kHubPrefix) + (model.organization.empty() ? "" : model.organization + '/') +
         model.name + (is_main ? "" : '@' + model.revision);
}

[[noreturn]] void missing(const HubModel& model, const std::string& what) {
  throw StageError(ErrorCode::kMissingWeights, what)
      .with_help("fetch it with `retort data fetch " + text(model) + "`");
}

HubModel parse(std::string_view reference) {
  const std::string_view rest = reference.substr(kHubPrefix.size());
  const std::string_view path = rest.substr(0, rest.find('@'));
  const std::size_t slash = path.find('/');
  HubModel model;
  if (path.size() < rest.size()) model.revision = rest.substr(path.size() + 1);
  if (slash != path.npos) model.organization = path.substr(0, slash);
  model.name = path.substr(slash == path.npos ? 0 : slash + 1);
  const bool is_named = (slash == path.npos || is_name(model.organization)) && is_name(model.name);
  if (is_named && is_revision(model.revision)) return model;
  throw StageError(ErrorCode::kMissingWeights,
                   "'" + printable_ascii(reference) + "' is not the name of a model on the Hub")
      .with_help(
          "write hf:ORG/NAME or hf:ORG/NAME@REVISION, as in hf:openai/clip-vit-base-patch32");
}

}  // namespace

fs::path hub_cache() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return fs::path(cache) / "huggingface/hub";
  const std::string home = variable("HOME");
  if (home.empty()) {
    throw StageError(ErrorCode::kCannotCreate,
                     "there is no folder for the Hugging Face cache: HOME is not set")
        .with_help("set HF_HUB_CACHE to a folder");
  }
  return fs::path(home) / ".cache/huggingface/hub";
}

bool is_hub_reference(std::string_view text) { return text.starts_with(kHubPrefix); }

fs::path hub_snapshot(std::string_view reference) {
  const HubModel model = parse(reference);
  const fs::path cache = hub_cache();
  const fs::path folder =
      cache /
      ("models--" + (model.organization.empty() ? "" : model.organization + "--") + model.name);
  std::error_code error;
  if (!fs::is_directory(folder, error))
    missing(model, text(model) + " is not in '" + cache.string() + "'");
  std::string commit = model.revision;
  if (std::ifstream file = open_regular(folder / "refs" / model.revision); file) {
    commit.clear();
    file >> std::setw(41) >> commit;
  }
  const fs::path snapshot = folder / "snapshots" / commit;
  if (is_commit(commit) && fs::is_directory(snapshot, error)) return snapshot;
  missing(model, "'" + folder.string() + "' has no revision '" + model.revision + "'");
}

}  // namespace runner
