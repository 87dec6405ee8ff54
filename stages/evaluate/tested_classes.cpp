#include "stages/evaluate/tested_classes.h"

#include <map>

#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

constexpr std::size_t kListedClasses = 20;

/// Returns the index of each name, keyed by compared_name(). Throws if a name occurs twice.
std::map<std::string, std::int64_t> numbered(const std::vector<std::string>& classes,
                                             const std::string& where) {
  std::map<std::string, std::int64_t> numbers;
  for (const std::string& name : classes) {
    if (numbers.emplace(compared_name(name), static_cast<std::int64_t>(numbers.size())).second)
      continue;
    throw runner::StageError(runner::ErrorCode::kLabelOutOfRange,
                             "two classes in " + where + " are called '" + name + "'")
        .with_help("classes are identified by their names: give each class a different name");
  }
  return numbers;
}

[[noreturn]] void refuse_unknown(const std::vector<std::string>& unknown,
                                 const std::vector<std::string>& trained) {
  std::string help;
  for (const std::string& name : unknown) {
    const std::string near = runner::nearest_name(name, trained);
    if (!near.empty() && help.size() < 300)
      help += (help.empty() ? "" : ", ") + ("'" + near + "' instead of '" + name + "'");
  }
  throw runner::StageError(
      runner::ErrorCode::kLabelOutOfRange,
      "the test set has " + std::to_string(unknown.size()) +
          (unknown.size() == 1 ? " class" : " classes") +
          " that the network was not trained on: " + runner::listed(unknown, kListedClasses, "'"))
      .with_help(help.empty() ? "remove them from the test set; the network knows " +
                                    runner::listed(trained, kListedClasses, "'")
                              : "did you mean " + help + "? remove any other unknown classes");
}

}  // namespace

TestedClasses::TestedClasses(const std::vector<std::string>& tested,
                             const std::vector<std::string>& trained)
    : present_(trained.size(), tested == trained) {
  if (tested == trained) return;
  const auto known = numbered(trained, "the checkpoint");
  numbered(tested, "the test set");
  std::vector<std::string> unknown;
  for (const std::string& name : tested) {
    const auto found = known.find(compared_name(name));
    if (found == known.end()) {
      unknown.push_back(name);
      continue;
    }
    trained_label_.push_back(found->second);
    present_[static_cast<std::size_t>(found->second)] = true;
  }
  if (!unknown.empty()) refuse_unknown(unknown, trained);
  for (std::size_t label = 0; label < trained.size(); ++label) {
    if (!present_[label]) absent_.push_back(trained[label]);
  }
}

at::Tensor TestedClasses::trained_labels(const at::Tensor& labels) const {
  if (trained_label_.empty()) return labels;
  if (labels.ge(static_cast<std::int64_t>(trained_label_.size())).any().item<bool>()) {
    throw runner::StageError(runner::ErrorCode::kLabelOutOfRange,
                             "the test set has a label beyond its " +
                                 std::to_string(trained_label_.size()) + " classes");
  }
  return torch::tensor(trained_label_).index_select(0, labels);
}

std::string TestedClasses::absent_text() const {
  if (absent_.empty()) return "";
  return std::to_string(absent_.size()) + " of " + std::to_string(present_.size()) + " classes " +
         (absent_.size() == 1 ? "is" : "are") +
         " absent from the test set, and so excluded from all means over classes: " +
         runner::listed(absent_, kListedClasses, "'");
}

}  // namespace stages
