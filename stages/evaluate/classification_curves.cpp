#include "stages/evaluate/classification_curves.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/artifact/class_scores.h"

namespace stages {

Calibration calibration(std::span<const Confidence> predictions, std::int64_t bins) {
  assert(!predictions.empty() && bins > 0);
  Calibration result;
  const auto edge = [&](std::int64_t i) {
    return static_cast<double>(i) / static_cast<double>(bins);
  };
  for (std::int64_t i = 0; i < bins; ++i) result.bins.push_back({edge(i), edge(i + 1)});
  for (const auto& [probability, is_correct] : predictions) {
    const auto found =
        std::ranges::lower_bound(result.bins, probability, {}, &Calibration::Bin::high);
    Calibration::Bin& bin = found == result.bins.end()
                                ? result.bins.back()
                                : *found;  // a value that rounding put above 1
    ++bin.count;
    bin.confidence += probability;
    bin.accuracy += is_correct;
  }
  for (Calibration::Bin& bin : result.bins) {
    if (bin.count == 0) continue;
    bin.confidence /= static_cast<double>(bin.count);
    bin.accuracy /= static_cast<double>(bin.count);
    result.error += std::abs(bin.accuracy - bin.confidence) * static_cast<double>(bin.count);
  }
  result.error /= static_cast<double>(predictions.size());
  return result;
}

std::optional<RocCurve> roc_curve(std::vector<Detected> samples) {
  const auto positives =
      static_cast<double>(std::ranges::count_if(samples, &Detected::is_positive));
  const double negatives = static_cast<double>(samples.size()) - positives;
  if (positives == 0 || negatives == 0) return std::nullopt;
  std::ranges::sort(samples, std::greater{}, &Detected::score);
  RocCurve curve;
  for (auto* const shares : {&curve.false_positives, &curve.true_positives}) {
    shares->reserve(samples.size() + 1);
    shares->push_back(0);
  }
  double hits = 0, alarms = 0, twice_area = 0;
  for (std::size_t i = 0; i < samples.size();) {
    const double score = samples[i].score, hits_before = hits, alarms_before = alarms;
    for (; i < samples.size() && samples[i].score == score; ++i)
      ++(samples[i].is_positive ? hits : alarms);
    twice_area += (alarms - alarms_before) * (hits + hits_before);
    curve.false_positives.push_back(alarms / negatives);
    curve.true_positives.push_back(hits / positives);
  }
  curve.area = twice_area / (2 * positives * negatives);
  return curve;
}

double true_positives_at(const RocCurve& curve, double share) {
  const auto above = std::ranges::upper_bound(curve.false_positives, share);
  const auto right = static_cast<std::size_t>(above - curve.false_positives.begin());
  assert(right > 0);
  if (above == curve.false_positives.end()) return curve.true_positives.back();
  const std::size_t left = right - 1;
  const double width = curve.false_positives[right] - curve.false_positives[left];
  const double part = (share - curve.false_positives[left]) / width;
  return curve.true_positives[left] +
         part * (curve.true_positives[right] - curve.true_positives[left]);
}

std::vector<double> thinned(const std::vector<double>& coordinates, std::size_t points) {
  assert(points >= 2);
  const std::size_t last = coordinates.size() - 1;
  if (last < points) return coordinates;
  std::vector<double> few;
  for (std::size_t i = 0; i < points; ++i) few.push_back(coordinates[i * last / (points - 1)]);
  return few;
}

RocCurve thinned(const RocCurve& curve, std::size_t points) {
  return {thinned(curve.false_positives, points), thinned(curve.true_positives, points),
          curve.area};
}

nlohmann::ordered_json to_json(const RocCurve& curve) {
  const RocCurve shown = thinned(curve, kMostPoints);
  return {{"auc", shown.area}, {"fpr", shown.false_positives}, {"tpr", shown.true_positives}};
}

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kGrid = 100;  // number of intervals of the mean curve

/// Returns the probability of each class for each sample. Does not use torch's softmax: it would
/// rank equal probabilities by their last bit, which differs between processor types.
std::vector<double> shares_of(const at::Tensor& logits) {
  std::vector<double> shares;
  shares.reserve(static_cast<std::size_t>(logits.numel()));
  for (std::int64_t row = 0; row < logits.size(0); ++row) {
    const ClassScores scores = class_scores(logits, row);
    for (std::int64_t label = 0; label < scores.classes(); ++label)
      shares.push_back(scores.probability(label));
  }
  return shares;
}

RocCurve mean_curve(const std::vector<std::optional<RocCurve>>& curves, double area) {
  RocCurve mean{{0}, {0}, area};
  for (std::int64_t i = 0; i <= kGrid; ++i) {
    const double share = static_cast<double>(i) / kGrid;
    double sum = 0, count = 0;
    for (const auto& curve : curves) {
      if (!curve) continue;
      sum += true_positives_at(*curve, share);
      ++count;
    }
    mean.false_positives.push_back(share);
    mean.true_positives.push_back(sum / count);
  }
  return mean;
}

Json json_of(const std::optional<RocCurve>& curve) {
  return curve ? to_json(*curve) : Json(nullptr);
}

Json json_of(const std::optional<double>& number) { return number ? Json(*number) : Json(nullptr); }

}  // namespace

ClassificationCurves classification_curves(const at::Tensor& logits, const at::Tensor& labels,
                                           std::int64_t bins,
                                           const std::vector<std::int64_t>& predicted) {
  const std::int64_t samples = logits.size(0), classes = logits.size(1);
  assert(samples > 0 && labels.size(0) == samples);
  const at::Tensor truths = labels.contiguous();
  const std::vector<double> share = shares_of(logits);
  const std::int64_t* truth = truths.const_data_ptr<std::int64_t>();

  ClassificationCurves curves;
  double area = 0, defined = 0;
  for (std::int64_t label = 0; label < classes; ++label) {
    std::vector<Detected> detected;
    detected.reserve(static_cast<std::size_t>(samples));
    for (std::int64_t row = 0; row < samples; ++row)
      detected.push_back(
          {share[static_cast<std::size_t>(row * classes + label)], truth[row] == label});
    curves.of_class.push_back(roc_curve(std::move(detected)));
    if (!curves.of_class.back()) continue;
    area += curves.of_class.back()->area;
    ++defined;
  }
  if (defined > 0) {
    curves.macro_area = area / defined;
    curves.macro = mean_curve(curves.of_class, *curves.macro_area);
  }
  if (samples * classes <= kMostPairs) {
    std::vector<Detected> pairs;
    pairs.reserve(static_cast<std::size_t>(samples * classes));
    for (std::int64_t row = 0; row < samples; ++row) {
      for (std::int64_t label = 0; label < classes; ++label) {
        pairs.push_back(
            {share[static_cast<std::size_t>(row * classes + label)], truth[row] == label});
      }
    }
    curves.micro = roc_curve(std::move(pairs));
  }
  if (bins > 0) curves.calibration = calibration_of(logits, truths, bins, predicted);
  return curves;
}

Calibration calibration_of(const at::Tensor& logits, const at::Tensor& labels, std::int64_t bins,
                           const std::vector<std::int64_t>& predicted) {
  const at::Tensor truths = labels.contiguous();
  std::vector<Confidence> predictions;
  for (std::int64_t row = 0; row < logits.size(0); ++row) {
    const ClassScores scores = class_scores(logits, row);
    const std::int64_t taken_for =
        predicted.empty() ? scores.predicted() : predicted[static_cast<std::size_t>(row)];
    predictions.push_back(
        {scores.probability(taken_for), taken_for == truths.const_data_ptr<std::int64_t>()[row]});
  }
  return calibration(predictions, bins);
}

std::int64_t curve_bytes(std::int64_t samples, std::int64_t classes) {
  constexpr std::int64_t kPoint = 2 * sizeof(double);  // bytes per point of a curve
  const std::int64_t pairs = samples * classes;
  const std::int64_t shares = static_cast<std::int64_t>(sizeof(double)) * pairs,
                     of_classes = kPoint * (samples + 1) * classes,
                     micro =
                         pairs <= kMostPairs
                             ? static_cast<std::int64_t>(sizeof(Detected)) * pairs + kPoint * pairs
                             : 0;
  return shares + of_classes + micro;
}

std::vector<std::pair<std::string, double>> summary(const ClassificationCurves& curves) {
  std::vector<std::pair<std::string, double>> values;
  if (curves.macro_area) values.emplace_back("auc_macro", *curves.macro_area);
  if (curves.micro) values.emplace_back("auc_micro", curves.micro->area);
  if (!curves.calibration.bins.empty())
    values.emplace_back("calibration_error", curves.calibration.error);
  return values;
}

Json to_json(const ClassificationCurves& curves, const std::vector<std::string>& classes) {
  Json areas = Json::array(), shown = Json::array(), bins = Json::array();
  for (std::size_t label = 0; label < curves.of_class.size(); ++label) {
    const auto& curve = curves.of_class[label];
    areas.push_back(curve ? Json(curve->area) : Json(nullptr));
    if (!curve || curves.of_class.size() > kMostCurves) continue;
    Json one = {{"class", classes[label]}};
    one.update(json_of(curve));
    shown.push_back(std::move(one));
  }
  for (const auto& [low, high, count, confidence, accuracy] : curves.calibration.bins) {
    bins.push_back({{"low", low},
                    {"high", high},
                    {"count", count},
                    {"confidence", confidence},
                    {"accuracy", accuracy}});
  }
  const Json roc = {{"auc_of_class", std::move(areas)},
                    {"auc_macro", json_of(curves.macro_area)},
                    {"auc_micro", curves.micro ? Json(curves.micro->area) : Json(nullptr)},
                    {"macro", json_of(curves.macro)},
                    {"micro", json_of(curves.micro)},
                    {"classes", std::move(shown)}};
  const Json calibration =
      bins.empty() ? Json(nullptr)
                   : Json{{"error", curves.calibration.error}, {"bins", std::move(bins)}};
  return {{"roc", roc}, {"calibration", calibration}};
}

}  // namespace stages
