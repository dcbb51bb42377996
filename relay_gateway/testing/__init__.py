"""What tests of the gateway and of its plugins share: fakes, real servers, conformance suites."""
