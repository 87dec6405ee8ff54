#pragma once

#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

namespace stages {

/// Of each device: the state of LibTorch's random generator there, in its own bytes.
using GeneratorStates = std::vector<std::pair<c10::Device, at::Tensor>>;

/// Of the CPU and, where `device` is another, of that.
GeneratorStates generator_states(c10::Device device);
/// Throws c10::Error if they are no states of such generators.
void set_generator_states(const GeneratorStates& states);

/// The state of LibTorch's own random generators, of the CPU and, where `device` is another, of
/// that: an object of hexadecimal texts by device type. Nothing in a training step draws from them
/// (random.h, philox.h), but a layer of LibTorch's may.
nlohmann::json generator_state(c10::Device device);

/// Puts such a state back; a device other than the CPU that it does not know keeps its own. Throws
/// std::invalid_argument if it is none.
void set_generator_state(const nlohmann::json& state, c10::Device device);

}  // namespace stages
