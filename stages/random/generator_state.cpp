#include "stages/random/generator_state.h"

#include <mutex>
#include <stdexcept>
#include <string>

#include <torch/types.h>
#include <nlohmann/json.hpp>

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
    if (value == std::string_view::npos)
      throw std::invalid_argument("a generator's state is not hexadecimal");
    return static_cast<std::uint8_t>(value);
  };
  const at::Tensor bytes = torch::empty({static_cast<std::int64_t>(text.size() / 2)}, torch::kByte);
  auto* byte = bytes.mutable_data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    *byte++ = static_cast<std::uint8_t>(digit(text[i]) << 4 | digit(text[i + 1]));
  return bytes;
}

std::string type_name(at::Device device) {
  return c10::DeviceTypeName(device.type(), /*lower_case=*/true);
}

}  // namespace

GeneratorStates generator_states(at::Device device) {
  GeneratorStates states;
  std::vector<at::Device> devices = {at::kCPU};
  if (!device.is_cpu() && !device.is_meta()) devices.push_back(device);  // Meta has no generator
  for (const at::Device& one : devices) {
    at::Generator generator = at::globalContext().defaultGenerator(one);
    const std::lock_guard lock(generator.mutex());
    states.emplace_back(one, generator.get_state());
  }
  return states;
}

void set_generator_states(const GeneratorStates& states) {
  for (const auto& [device, state] : states) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }
}

nlohmann::json generator_state(at::Device device) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [one, state] : generator_states(device))
    json[type_name(one)] = hexadecimal(state);
  return json;
}

void set_generator_state(const nlohmann::json& json, at::Device device) {
  GeneratorStates states = generator_states(device);
  for (auto& [one, state] : states) {
    const auto text = json.find(type_name(one));
    if (text == json.end() && !one.is_cpu())
      continue;  // saved by a run that did not use this device
    if (text == json.end() || !text->is_string())
      throw std::invalid_argument("it has no state of the random number generator");
    state = bytes_from(text->get<std::string>());
  }
  try {
    set_generator_states(states);
  } catch (const c10::Error&) {
    throw std::invalid_argument(
        "the state of its random number generator was saved by a different version of LibTorch");
  }
}

}  // namespace stages
