#include <algorithm>

#include "runner/parent/report/pooled_measure.h"
#include "runner/parent/report/pooled_ranking.h"

namespace runner {
namespace {

double ratio_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

/// Counts of the predictions of one label, or of all.
struct LabelCounts {
  double right = 0, predicted = 0, support = 0;

  double precision() const { return ratio_of(right, predicted); }
  double recall() const { return ratio_of(right, support); }
  double f1() const { return ratio_of(2 * right, predicted + support); }
};

/// The metrics of several labels, as defined in stages/evaluate/multi_label_metrics.h.
class PooledLabels final : public PooledMeasure {
 public:
  explicit PooledLabels(std::span<const PooledRow> rows) : samples_(rows.size()) {
    const std::vector<PredictionTable::Label>& labels = rows.front().table->labels;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      Label& label = labels_.emplace_back();
      std::vector<PooledRanking::Scored> scored;
      for (const PooledRow& row : rows) {
        label.has.push_back(holds(row[row.table->label], labels[i].name));
        label.predicted.push_back(holds(row[row.table->predicted], labels[i].name));
        scored.push_back(
            {number_of_field(row[row.table->labels[i].probability]), label.has.back()});
      }
      label.ranking = PooledRanking(std::move(scored));
    }
  }

  Metrics metrics(const std::vector<std::uint32_t>& times) const override {
    const auto count = static_cast<double>(labels_.size());
    LabelCounts all;
    DefinedMean precisions, areas;
    double precision = 0, recall = 0, f1 = 0;
    for (const Label& label : labels_) {
      const LabelCounts own = label.counts(times);
      precisions.add(label.ranking.average_precision(times));
      areas.add(label.ranking.area(times));
      precision += own.precision() / count;
      recall += own.recall() / count;
      f1 += own.f1() / count;
      all.right += own.right;
      all.predicted += own.predicted;
      all.support += own.support;
    }
    double samples = 0, exact = 0;
    for (std::size_t i = 0; i < samples_; ++i) {
      samples += times[i];
      if (is_exact(i)) exact += times[i];
    }
    return {{"mean_average_precision", precisions.value()},
            {"auc_macro", areas.value()},
            {"micro_precision", all.precision()},
            {"micro_recall", all.recall()},
            {"micro_f1", all.f1()},
            {"macro_precision", precision},
            {"macro_recall", recall},
            {"macro_f1", f1},
            {"hamming_loss", (all.predicted + all.support - 2 * all.right) / (samples * count)},
            {"subset_accuracy", exact / samples}};
  }

 private:
  struct Label {
    std::vector<bool> has, predicted;  // by sample
    PooledRanking ranking{{}};

    LabelCounts counts(const std::vector<std::uint32_t>& times) const {
      LabelCounts result;
      for (std::size_t i = 0; i < times.size(); ++i) {
        if (has[i]) result.support += times[i];
        if (predicted[i]) result.predicted += times[i];
        if (has[i] && predicted[i]) result.right += times[i];
      }
      return result;
    }
  };

  static bool holds(const std::string& names, const std::string& name) {
    return ("|" + names + "|").find("|" + name + "|") != std::string::npos;
  }
  bool is_exact(std::size_t sample) const {
    return std::ranges::all_of(
        labels_, [&](const Label& label) { return label.has[sample] == label.predicted[sample]; });
  }

  std::size_t samples_;
  std::vector<Label> labels_;
};

}  // namespace

std::unique_ptr<PooledMeasure> measure_labels(std::span<const PooledRow> rows) {
  return std::make_unique<PooledLabels>(rows);
}

}  // namespace runner
