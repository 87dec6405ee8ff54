#include "stages/generator_state.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <torch/torch.h>

namespace stages {
namespace {

constexpr const char* kDigits = "0123456789abcdef";

std::string hexadecimal(const at::Tensor& bytes) {
  std::string text;
  const auto* byte = bytes.const_data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < bytes.numel(); ++i) {
    text += kDigits[byte[i] >> 4];
    text += kDigits[byte[i] & 15];
  }
  return text;
}

at::Tensor bytes_from(const std::string& text) {
  const auto digit = [](char c) {
    const std::size_t value = std::string_view(kDigits).find(c);
    if (value == std::string_view::npos) throw std::invalid_argument("a generator's state is not hexadecimal");
    return static_cast<std::uint8_t>(value);
  };
  const at::Tensor bytes = torch::empty({static_cast<std::int64_t>(text.size() / 2)}, torch::kByte);
  auto* byte = bytes.mutable_data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    *byte++ = static_cast<std::uint8_t>(digit(text[i]) << 4 | digit(text[i + 1]));
  return bytes;
}

std::vector<at::Device> devices_with(at::Device device) {
  if (device.is_cpu()) return {device};
  return {at::Device(at::kCPU), device};
}

}  // namespace

nlohmann::json generator_state(at::Device device) {
  nlohmann::json state = nlohmann::json::object();
  for (const at::Device& one : devices_with(device)) {
    at::Generator generator = at::globalContext().defaultGenerator(one);
    const std::lock_guard lock(generator.mutex());
    state[c10::DeviceTypeName(one.type(), /*lower_case=*/true)] = hexadecimal(generator.get_state());
  }
  return state;
}

void set_generator_state(const nlohmann::json& state, at::Device device) {
  for (const at::Device& one : devices_with(device)) {
    const auto text = state.find(c10::DeviceTypeName(one.type(), /*lower_case=*/true));
    if (text == state.end() || !text->is_string()) throw std::invalid_argument("it has no state of a random generator");
    at::Generator generator = at::globalContext().defaultGenerator(one);
    const std::lock_guard lock(generator.mutex());
    try {
      generator.set_state(bytes_from(text->get<std::string>()));
    } catch (const c10::Error&) {
      throw std::invalid_argument("the state of its random generator is of another LibTorch");
    }
  }
}

}  // namespace stages
