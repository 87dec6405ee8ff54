#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

/// The result of checking one recorded case.
struct Verdict {
  enum class Kind {
    kSame,             ///< Retort does what was recorded
    kKnownDifference,  ///< Retort differs on purpose; `text` is the reason, the same for all such
                       ///< cases
    kDifferent,        ///< Retort differs; `text` describes how
  };
  Kind kind = Kind::kSame;
  std::string text = {};

  static Verdict same() { return {}; }
  static Verdict known_difference(std::string reason) {
    return {Kind::kKnownDifference, std::move(reason)};
  }
  static Verdict different(std::string text) { return {Kind::kDifferent, std::move(text)}; }
};

/// Checks one line of a case file. `folder` contains the file, and the files that it refers to.
using CheckCase = Verdict (*)(const nlohmann::ordered_json& recorded,
                              const std::filesystem::path& folder);
