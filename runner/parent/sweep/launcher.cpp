#include "runner/parent/sweep/launcher.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <random>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/make_folders.h"
#include "runner/shared/disk/new_file.h"
#include "runner/parent/schema/schema.h"
#include "runner/parent/sweep/kubernetes_launcher.h"
#include "runner/parent/sweep/slurm_launcher.h"
#include "runner/parent/sweep/submission.h"
#include "runner/shared/text/character.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

class LocalLauncher : public Launcher {
 public:
  ExitCode run(SweepJournal& journal, const TrialOptions& options, const TrialSurroundings& surroundings) override {
    return run_trials(journal, options, surroundings);
  }
};

using Make = std::unique_ptr<Launcher> (*)(nlohmann::ordered_json settings);
constexpr std::array<std::pair<std::string_view, Make>, 2> kLaunchers = {
    {{"slurm", slurm_launcher}, {"kubernetes", kubernetes_launcher}}};

/// By which a cluster tells this sweep's jobs from all others.
std::string unique_prefix() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device random;
  std::string text = "retort-";
  for (int digit = 0; digit < 8; ++digit) text += kDigits[random() % kDigits.size()];
  return text;
}

/// Could unique_prefix() have made it? It names jobs in scripts and in lists.
bool is_prefix(std::string_view text) {
  return !text.empty() && text.size() <= 40 && std::ranges::all_of(text, [](char letter) {
    return is_digit(letter) || (letter >= 'a' && letter <= 'z') || letter == '-';
  });
}

Diagnostic damaged_launcher(const std::filesystem::path& path, const std::string& why) {
  return {ErrorCode::kDamagedRecord,
          {},
          "",
          "'" + path.string() + "' does not say what runs the sweep's trials: " + why,
          "write it as `retort explain sweep/launcher/slurm` says"};
}

}  // namespace

void keep_launcher(const nlohmann::ordered_json& settings, const std::filesystem::path& sweep) {
  if (settings.is_null()) return;
  const LaunchLayout layout(sweep);
  make_folders(layout.folder());
  const nlohmann::ordered_json kept = {{"prefix", unique_prefix()}, {"launcher", settings}};
  write_atomically(layout.launcher(), kept.dump(2) + "\n");
}

Result<std::unique_ptr<Launcher>> launcher_of(const std::filesystem::path& sweep) {
  const auto path = LaunchLayout(sweep).launcher();
  std::ifstream file(path);
  if (!file) return std::unique_ptr<Launcher>(std::make_unique<LocalLauncher>());
  const auto kept = parse_json<nlohmann::ordered_json>(file);
  if (!kept.is_object() || !kept.contains("launcher") || !kept["launcher"].is_object() || !kept.contains("prefix") ||
      !kept["prefix"].is_string())
    return damaged_launcher(path, "it has no 'launcher' and 'prefix'");
  if (!is_prefix(kept["prefix"].get<std::string>()))
    return damaged_launcher(path, "its 'prefix' is not of small letters, digits and '-'");
  Value asked = from_json(kept["launcher"]);
  const Value* const kind = asked.find("kind");
  for (const auto& [name, make] : kLaunchers) {
    if (!kind || !kind->text() || *kind->text() != name) continue;
    const Diagnostics errors =
        SchemaSet::open(embedded_schemas()).validate(asked, "sweep/launcher/" + std::string(name) + ".schema.json");
    if (!errors.empty()) return damaged_launcher(path, errors.front().message + " [" + errors.front().pointer + "]");
    nlohmann::ordered_json settings = to_json(asked);
    settings["prefix"] = kept["prefix"];
    return make(std::move(settings));
  }
  return damaged_launcher(path, "there is no launcher of its kind");
}

}  // namespace runner
