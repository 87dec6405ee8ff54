#include "runner/parent/report/recorded_predictions.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "runner/shared/disk/file_system.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/csv_reader.h"

namespace runner {
namespace {

constexpr std::size_t kLargestPredictions = std::size_t{1} << 30;
constexpr const char* kPredictions = "predictions.csv";

/// The place of the column with one of these names.
std::size_t column(const std::vector<std::string>& head, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = std::ranges::find(head, name);
    if (found != head.end()) return static_cast<std::size_t>(found - head.begin());
  }
  throw std::runtime_error("it has no column '" + std::string(*names.begin()) + "'");
}

/// Throws std::runtime_error.
std::vector<RecordedPrediction> predictions_from(std::string_view text) {
  std::vector<RecordedPrediction> all;
  auto row = take_csv_line(text);
  if (!row) throw std::runtime_error("it is empty");
  const std::vector<std::string> head = *std::move(row);
  const std::size_t name = column(head, {"name"}), label = column(head, {"label", "grade"});
  const std::size_t predicted = column(head, {"predicted", "prediction"});
  for (std::size_t number = 2; (row = take_csv_line(text)); ++number) {
    if (row->size() != head.size())
      throw std::runtime_error("its row " + std::to_string(number) + " has " + std::to_string(row->size()) +
                               " fields, not " + std::to_string(head.size()));
    all.push_back({(*row)[name], (*row)[label], (*row)[label] == (*row)[predicted]});
  }
  std::ranges::stable_sort(all, {}, &RecordedPrediction::name);
  return all;
}

}  // namespace

Result<std::vector<RecordedPrediction>> read_predictions(const std::filesystem::path& folder, const std::string& node) {
  const std::filesystem::path path = RunLayout(folder).node(node).folder() / kPredictions;
  const auto text = real_file_system().read(path, kLargestPredictions);
  if (!text) {
    return Diagnostic{ErrorCode::kNoResults,
                      {},
                      "",
                      "there is no '" + path.string() + "', so nothing of that run can be paired",
                      "evaluate it with csv: true, which is the default of evaluations of classes"};
  }
  try {
    return predictions_from(*text);
  } catch (const std::runtime_error& error) {
    return Diagnostic{ErrorCode::kDamagedRecord,
                      {},
                      "",
                      "'" + path.string() + "' cannot be used: " + error.what(),
                      "evaluate the run again with `retort evaluate " + folder.string() + "`"};
  }
}

}  // namespace runner
