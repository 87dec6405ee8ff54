#include "runner/shared/weights/hugging_face_cache.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <system_error>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHubPrefix = "hf:";

struct HubModel {
  std::string organisation, name;  ///< the oldest models have no organisation
  std::string revision = "main";
};

/// As the hub wants the names of people and models, and no path in disguise.
bool is_name(std::string_view text) {
  constexpr std::size_t kLongest = 96;
  const auto is_allowed = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, is_allowed) && text[0] != '.' &&
         text[0] != '-' && text.back() != '.' && text.back() != '-' && text.find("--") == text.npos &&
         text.find("..") == text.npos;
}

/// Names with slashes between them: "refs/pr/1" is one.
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
  return std::string(kHubPrefix) + (model.organisation.empty() ? "" : model.organisation + '/') + model.name +
         (is_main ? "" : '@' + model.revision);
}

[[noreturn]] void missing(const HubModel& model, const std::string& what) {
  throw StageError(ErrorCode::kMissingWeights, what).with_help("fetch it with `retort data fetch " + text(model) + "`");
}

HubModel parse(std::string_view reference) {
  const std::string_view rest = reference.substr(kHubPrefix.size());
  const std::string_view path = rest.substr(0, rest.find('@'));
  const std::size_t slash = path.find('/');
  HubModel model;
  if (path.size() < rest.size()) model.revision = rest.substr(path.size() + 1);
  if (slash != path.npos) model.organisation = path.substr(0, slash);
  model.name = path.substr(slash == path.npos ? 0 : slash + 1);
  const bool is_named = (slash == path.npos || is_name(model.organisation)) && is_name(model.name);
  if (is_named && is_revision(model.revision)) return model;
  throw StageError(ErrorCode::kMissingWeights,
                   "'" + printable_ascii(reference) + "' is not the name of a model on the Hub")
      .with_help("write hf:ORG/NAME or hf:ORG/NAME@REVISION, as in hf:openai/clip-vit-base-patch32");
}

}  // namespace

fs::path hub_cache() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return fs::path(cache) / "huggingface/hub";
  const std::string home = variable("HOME");
  if (home.empty()) {
    throw StageError(ErrorCode::kCannotCreate, "there is no folder for the Hugging Face cache: HOME is not set")
        .with_help("set HF_HUB_CACHE to a folder");
  }
  return fs::path(home) / ".cache/huggingface/hub";
}

bool is_hub_reference(std::string_view text) { return text.starts_with(kHubPrefix); }

fs::path hub_snapshot(std::string_view reference) {
  const HubModel model = parse(reference);
  const fs::path cache = hub_cache();
  const fs::path folder =
      cache / ("models--" + (model.organisation.empty() ? "" : model.organisation + "--") + model.name);
  std::error_code error;
  if (!fs::is_directory(folder, error)) missing(model, text(model) + " is not in '" + cache.string() + "'");
  std::string commit = model.revision;
  if (std::ifstream file(folder / "refs" / model.revision); file) {
    commit.clear();
    file >> std::setw(41) >> commit;
  }
  const fs::path snapshot = folder / "snapshots" / commit;
  if (is_commit(commit) && fs::is_directory(snapshot, error)) return snapshot;
  missing(model, "'" + folder.string() + "' does not hold the revision '" + model.revision + "'");
}

}  // namespace runner
