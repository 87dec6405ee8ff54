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

/// The output formats for predictions. kShownCsv escapes names for a terminal; kCsv writes them
/// unchanged.
enum class PredictionFormat { kCsv, kShownCsv, kJsonLines };

/// Writes the items that answer a "predict" request as they arrive, one line per image:
///
///   file,class_1,probability_1,class_2,probability_2
///   a.jpg,circle,0.93,ring,0.04
///
///   {"file": "a.jpg", "classes": [{"class", "probability"}, …]}
///
/// For a network that predicts any number of labels per image, the labels, separated by |, precede
/// the most likely classes: file,labels,class_1,probability_1 …, and {"file", "labels": [text, …],
/// "classes"}. For a network with outputs that are not class scores: file,output or
/// file,output_0,output_1 …, and {"file", "outputs": [number, …]}. For a network that predicts
/// numbers: one column per target, and {"file", "values": {NAME: number, …}}. For an ensemble:
/// file,prediction,tied,margin, votes_NAME for each class and p_NAME for each class pair.
/// Unreadable images are collected; with CSV, they are also reported on `err` immediately.
class PredictionOutput {
 public:
  using Append = std::function<void(std::string_view)>;
  PredictionOutput(PredictionFormat format, Append append, std::ostream& err, bool color);

  /// Writes one item. Throws std::runtime_error if it is invalid.
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
  std::int64_t images_ = 0;  // number of images written so far
  Diagnostics unreadable_;
};

}  // namespace runner
