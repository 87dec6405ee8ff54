#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// kShownCsv: for a terminal, with escaped names; a file has the names as they are.
enum class PredictionFormat { kCsv, kShownCsv, kJsonLines };

/// Writes the items of the request "predict" as they come, one line per image:
///
///   file,class_1,probability_1,class_2,probability_2
///   a.jpg,circle,0.93,ring,0.04
///
///   {"file": "a.jpg", "classes": [{"class", "probability"}, …]}
///
/// For a network with outputs that are no scores of classes: file,output or file,output_0,output_1
/// …, and {"file", "outputs": [number, …]}. For an ensemble: file,prediction,tied,margin,
/// votes_NAME for each class and p_NAME for each pair. Unreadable images are collected; with CSV
/// they are also reported at once on `err`.
class PredictionOutput {
 public:
  using Append = std::function<void(std::string_view)>;
  PredictionOutput(PredictionFormat format, Append append, std::ostream& err, bool color);

  /// Throws std::runtime_error for an invalid item.
  void take(const nlohmann::ordered_json& item);

  std::int64_t images() const { return images_; }
  const Diagnostics& unreadable() const { return unreadable_; }

 private:
  void take_unreadable(const std::string& code, const std::string& message);
  void write_csv(const nlohmann::ordered_json& item);
  void append(std::vector<std::string> header, std::vector<std::string> line);

  const PredictionFormat format_;
  const Append append_;
  std::ostream& err_;
  const bool color_;
  bool has_header_ = false;
  std::int64_t images_ = 0;  // written so far
  Diagnostics unreadable_;
};

}  // namespace runner
