#pragma once

#include <optional>
#include <string>

#include "stages/model/convolutional_networks.h"
#include "stages/model/resnet.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// Reads the options of schemas/model/backbone/conv that determine the network, except for its
/// statistics.
ConvNetworkOptions read_conv_network(runner::ConfigReader& reader);

/// Reads the options of schemas/model/backbone/resnet that determine the network, except for its
/// statistics. Also reads the options for its weights: a reference (saved_weights.h), and which
/// weights to read if the file has several. Checks that the weights exist, but does not read them.
ResNetOptions read_resnet(runner::ConfigReader& reader, std::optional<std::string>& weights,
                          std::optional<std::string>& weights_entry);

}  // namespace stages
