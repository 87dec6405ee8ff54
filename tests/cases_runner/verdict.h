#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

/// What became of one recorded case.
struct Verdict {
  enum class Kind {
    kSame,             ///< we do what was recorded
    kKnownDifference,  ///< we do something else on purpose; `text` is the reason, the same for all
                       ///< cases of its sort
    kDifferent,        ///< we do something else; `text` says what
  };
  Kind kind = Kind::kSame;
  std::string text = {};

  static Verdict same() { return {}; }
  static Verdict known_difference(std::string reason) {
    return {Kind::kKnownDifference, std::move(reason)};
  }
  static Verdict different(std::string text) { return {Kind::kDifferent, std::move(text)}; }
};

/// Holds one line of a case file against this program. `folder` is where the file lies, for what it
/// refers to.
using CheckCase = Verdict (*)(const nlohmann::ordered_json& recorded,
                              const std::filesystem::path& folder);
