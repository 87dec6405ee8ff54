#include "runner/parent/record/recorded_example.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestExampleList = 1 << 20, kLargestExample = 256 << 10;  // bytes
constexpr std::size_t kMostExamples = 100;
constexpr std::size_t kMostNamed = 10;  // maximum number of classes, labels or targets shown with
                                        // an image

using Lines = std::vector<std::string>;

/// Returns the lines for a classifier's prediction. For an ensemble, adds the votes for the
/// classes.
Lines prediction_lines(const JsonFields<Json>& fields) {
  Lines lines = {fields.text("label") + " predicted as " + fields.text("predicted") + ", " +
                 percent(fields.number("probability")) + "%"};
  if (!fields.has("votes")) return lines;
  Lines votes;
  for (const Json& one : fields.list("votes")) {
    const JsonFields vote(one, "a vote");
    votes.push_back(vote.text("class") + " " + significant(vote.number("score"), 4));
  }
  lines.push_back((fields.flag("tied") ? "tied votes: " : "votes: ") + listed(votes, kMostNamed));
  return lines;
}

/// Returns the lines for the captions that a retrieval finds for an image.
Lines caption_lines(const JsonFields<Json>& fields) {
  Lines lines = {fields.text("caption") + ": rank " + std::to_string(fields.integer("rank"))};
  if (!fields.has("nearest")) return lines;
  for (const std::string& caption : fields.texts("nearest")) lines.push_back("nearest: " + caption);
  return lines;
}

/// Returns the lines for the labels of an image that can have any number of them.
Lines label_lines(const JsonFields<Json>& fields) {
  const Lines labels = fields.texts("labels"), predicted = fields.texts("predicted");
  const auto without = [](const Lines& all, const Lines& others) {
    Lines rest;
    std::ranges::copy_if(all, std::back_inserter(rest), [&](const std::string& one) {
      return std::ranges::find(others, one) == others.end();
    });
    return rest;
  };
  const auto list = [](const Lines& names) {
    return names.empty() ? "none" : listed(names, kMostNamed);
  };
  Lines lines = {"true: " + list(labels), "predicted: " + list(predicted)};
  if (const Lines missed = without(labels, predicted); !missed.empty())
    lines.push_back("missed: " + list(missed));
  if (const Lines wrong = without(predicted, labels); !wrong.empty())
    lines.push_back("wrong: " + list(wrong));
  lines.push_back("loss " + significant(fields.number("loss"), 4));
  return lines;
}

/// Returns the lines for the values predicted for an image.
Lines target_lines(const JsonFields<Json>& fields) {
  Lines lines;
  for (const Json& one : fields.list("targets")) {
    if (lines.size() == kMostNamed) break;
    const JsonFields target(one, "a target");
    lines.push_back(target.text("target") + " " + significant(target.number("value"), 4) +
                    ", predicted " + significant(target.number("prediction"), 4));
  }
  return lines;
}

/// Returns the text to show with an example image, which depends on the kind of evaluation.
Lines example_lines(const Json& example, const std::string& name) {
  const JsonFields fields(example, "an example");
  const auto lines_of = [&]() -> Lines {
    if (fields.has("caption")) return caption_lines(fields);
    if (fields.has("labels")) return label_lines(fields);
    if (fields.has("targets")) return target_lines(fields);
    if (fields.has("support_of")) return {"support of " + fields.text("support_of")};
    return prediction_lines(fields);
  };
  Lines lines = lines_of();
  lines.push_back(name);
  return lines;
}

/// Returns nullopt if the file of the entry is missing or is not a JPEG file. Throws
/// std::runtime_error if the entry is damaged.
std::optional<RecordedExample> recorded_example(const std::filesystem::path& folder,
                                                const Json& json) {
  const JsonFields fields(json, "an example");
  const std::string file = fields.text("file");
  if (std::filesystem::path(file).has_parent_path()) return std::nullopt;
  auto jpeg = real_file_system().read(folder / file, kLargestExample);
  if (!jpeg || !jpeg->starts_with("\xFF\xD8")) return std::nullopt;
  std::string name = fields.text("name");
  std::vector<std::string> lines = example_lines(json, name);
  return RecordedExample{fields.text("group"), std::move(name), *std::move(jpeg), std::move(lines)};
}

}  // namespace

std::vector<RecordedExample> recorded_examples(const std::filesystem::path& node) {
  const std::filesystem::path folder = NodeLayout(node).examples();
  const auto list = real_file_system().read(folder / "examples.json", kLargestExampleList);
  const Json json = list ? parse_json<Json>(*list) : Json();
  std::vector<RecordedExample> examples;
  if (!json.is_array()) return examples;
  for (const Json& one : json) {
    if (examples.size() == kMostExamples) break;
    try {
      if (auto example = recorded_example(folder, one)) examples.push_back(*std::move(example));
    } catch (const std::runtime_error&) {
      continue;
    }
  }
  return examples;
}

}  // namespace runner
