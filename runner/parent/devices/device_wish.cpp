#include "runner/parent/devices/device_wish.h"

#include <algorithm>
#include <utility>

namespace runner {
namespace {

double number_in(const Value& value) {
  const auto* whole = std::get_if<std::int64_t>(&value.data);
  if (whole) return static_cast<double>(*whole);
  return value.text() ? std::stod(*value.text()) : std::get<double>(value.data);
}

std::vector<std::string> words_in(const Value& list) {
  std::vector<std::string> words;
  for (const Value& item : *list.list()) {
    const auto* number = std::get_if<std::int64_t>(&item.data);
    words.push_back(number ? std::to_string(*number) : *item.text());
  }
  return words;
}

}  // namespace

bool DeviceWish::may_fall_back_to(std::string_view where) const { return std::ranges::count(fallback, where) > 0; }

std::optional<int> DeviceWish::index() const {
  if (!select.starts_with("cuda:")) return std::nullopt;
  return std::stoi(select.substr(5));
}

DeviceWish wish_for_another(DeviceWish wish, std::vector<std::string> left) {
  wish.select = "cuda";
  wish.fallback.clear();
  wish.preferred.clear();
  wish.left = std::move(left);
  return wish;
}

DeviceWish device_wish(const Value& recipe) {
  const Value& device = *recipe.find("device");
  DeviceWish wish{.select = *device.find("select")->text(),
                  .exclude = words_in(*device.find("exclude")),
                  .wait = std::get<bool>(device.find("wait_for_gpu")->data),
                  .fallback = words_in(*device.find("fallback"))};
  if (const auto* megabytes = std::get_if<std::int64_t>(&device.find("min_gpu_memory_mb")->data))
    wish.need = *megabytes << 20;
  wish.timeout = std::chrono::duration<double>(60 * number_in(*device.find("wait_timeout_minutes")));
  wish.interval = std::chrono::duration<double>(number_in(*device.find("check_interval_seconds")));
  return wish;
}

}  // namespace runner
