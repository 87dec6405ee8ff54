#include "stages/train/means.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>

namespace stages {

void Means::add(const Means& more) {
  if (weight == 0) {
    *this = more;
    return;
  }
  const auto mix = [](double& mean, double other, double share) { mean += (other - mean) * share; };
  const auto mix_all = [&](Named& means, const Named& others, double share) {
    assert(means.size() == others.size());
    for (std::size_t i = 0; i < means.size(); ++i) mix(means[i].second, others[i].second, share);
  };
  const double share = more.weight / (weight + more.weight);
  mix(loss, more.loss, share);
  mix_all(terms, more.terms, share);
  mix_all(scores, more.scores, more.units / (units + more.units));
  weight += more.weight;
  units += more.units;
}

double Means::at(std::string_view name) const {
  if (name == "loss") return loss;
  for (const Named* all : {&terms, &scores}) {
    const auto found = std::ranges::find(*all, name, &Named::value_type::first);
    if (found != all->end()) return found->second;
  }
  throw std::out_of_range("nothing is measured as '" + std::string(name) + "'");
}

}  // namespace stages
