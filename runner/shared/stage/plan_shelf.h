#pragma once

#include <map>
#include <memory>
#include <typeindex>
#include <typeinfo>

namespace runner {

/// What the plans of one graph's nodes leave for one another, such as dry runs that another node's would repeat. One
/// object of each type, which its first user makes:
///
///   SharedTraces& traces = context.shelf().of<SharedTraces>();
class PlanShelf {
 public:
  template <typename T>
  T& of() {
    std::shared_ptr<void>& place = objects_[typeid(T)];
    if (!place) place = std::make_shared<T>();
    return *static_cast<T*>(place.get());
  }

 private:
  std::map<std::type_index, std::shared_ptr<void>> objects_;
};

}  // namespace runner
