#include "stages/tensor/named_tensors.h"

#include <algorithm>
#include <stdexcept>

namespace stages {

void NamedTensors::set(std::string_view name, at::Tensor tensor) {
  const auto found = std::ranges::find(items_, name, &Item::first);
  if (found != items_.end()) found->second = std::move(tensor);
  else items_.emplace_back(name, std::move(tensor));
}

at::Tensor NamedTensors::at(std::string_view name) const {
  const auto found = std::ranges::find(items_, name, &Item::first);
  if (found != items_.end()) return found->second;
  std::string known;
  for (const Item& item : items_) known += (known.empty() ? "" : ", ") + item.first;
  throw std::out_of_range("no tensor '" + std::string(name) + "' among: " + known);
}

bool NamedTensors::contains(std::string_view name) const {
  return std::ranges::find(items_, name, &Item::first) != items_.end();
}

}  // namespace stages
