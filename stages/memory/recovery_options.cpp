#include "stages/memory/recovery_options.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "runner/shared/stage/config_reader.h"

namespace stages {
namespace {

constexpr std::array<std::pair<std::string_view, OnOom>, 4> kOnOom = {
    {{"replan", OnOom::kReplan}, {"gpu", OnOom::kGpu}, {"cpu", OnOom::kCpu}, {"stop", OnOom::kStop}}};

std::vector<OnOom> read_on_oom(runner::ConfigReader& reader) {
  std::vector<std::string> words;
  reader.read("on_oom", words);
  std::vector<OnOom> all;
  for (const std::string& word : words) {
    const auto found = std::ranges::find(kOnOom, word, [](const auto& entry) { return entry.first; });
    const auto refuse = [&](const std::string& why, const std::string& help) {
      reader.fail("on_oom", runner::ErrorCode::kOptionConflict, "'" + word + "' " + why, help);
    };
    if (found == kOnOom.end()) refuse("is not known here", "this is a bug in Retort: please report it");
    else if (!all.empty() && all.back() == OnOom::kStop) refuse("is never reached after 'stop'", "put stop last");
    else if (!all.empty() && found->second == OnOom::kReplan)
      refuse("must come first: another device is tried once nothing else fits on this one", "put replan first");
    else all.push_back(found->second);
  }
  return all;
}

}  // namespace

RecoveryOptions read_recovery_options(runner::ConfigReader& reader) {
  RecoveryOptions options;
  runner::read_or_auto(reader, "max_retries", options.max_retries);
  options.on_oom = read_on_oom(reader);
  options.is_legacy = runner::choice<bool>(reader, "on_oom_policy", {{"exact", false}, {"legacy", true}});
  if (options.is_legacy && !options.max_retries) {
    reader.fail("max_retries", runner::ErrorCode::kOptionConflict, "on_oom_policy: legacy needs a number of retries",
                "set max_retries: 3, as the published program does");
  }
  return options;
}

}  // namespace stages
