#include "runner/parent/report/pair_picture.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runner/parent/svg/drawing.h"
#include "runner/parent/svg/plot.h"
#include "runner/shared/text/decimal.h"

namespace runner {
namespace {

struct MeanAccuracy {
  double sum = 0;
  std::int64_t networks = 0, samples = 0;
  double value() const { return sum / static_cast<double>(networks); }
};

}  // namespace

std::string draw_pairs(const RecordedEvaluation& evaluation, const std::string& name) {
  std::map<std::pair<std::size_t, std::size_t>, MeanAccuracy> cells;
  for (const auto& [first, second, samples, accuracy] : evaluation.pairs) {
    if (!accuracy) continue;
    MeanAccuracy& mean = cells[std::minmax(first, second)];
    mean.sum += *accuracy;
    ++mean.networks;
    mean.samples = samples;
  }
  const std::size_t classes = evaluation.classes.size();
  const double cell = std::clamp(520.0 / static_cast<double>(classes), 16.0, 72.0);
  const double side = cell * static_cast<double>(classes), left = 190, top = 50;
  Drawing drawing(left + side + 30, top + side + 160, "Pair matrix of " + name,
                  "How often the network of each pair of classes is right, on the test samples of these two");
  drawing.text({left + side / 2, 28}, "Accuracy of each pair's network", Align::kMiddle, "title");
  for (const auto& [pair, mean] : cells) {
    const auto& [first, second] = pair;
    const Point corner{left + cell * static_cast<double>(second), top + cell * static_cast<double>(first)};
    // From guessing, where nothing is seen, to always right.
    const double strength = std::clamp(2 * mean.value() - 1, 0.06, 1.0);
    drawing.rectangle(corner, cell, cell, "heat", strength,
                      evaluation.classes[first].name + " or " + evaluation.classes[second].name + ": right " +
                          percent(mean.value()) + " % of " + std::to_string(mean.samples));
    if (cell < 40) continue;
    drawing.text({corner.x + cell / 2, corner.y + cell / 2 + 4}, percent(mean.value()), Align::kMiddle,
                 strength > 0.55 ? "small inverse" : "small");
  }
  constexpr std::size_t kNameLength = 24;
  for (std::size_t label = 0; label < classes; ++label) {
    const std::string shown = shortened(evaluation.classes[label].name, kNameLength);
    const double middle = cell * (static_cast<double>(label) + 0.5);
    drawing.text({left - 8, top + middle + 4}, shown, Align::kEnd, "small");
    drawing.text({left + middle + 3, top + side + 14}, shown, Align::kEnd, "small", -45);
  }
  return drawing.svg();
}

}  // namespace runner
