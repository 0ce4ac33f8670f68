"""Tiny models of many classes of transformers, with random weights, and an input for each.

A model is the name of its class with the members of its configuration that make it small; widths are such that groups of 128 divide
them. Weights are larger than a fresh model's, so that a layer that is read wrongly shows in the answers.
"""

import torch

WIDTH = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL = {**WIDTH, "vocab_size": 256, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 32}
EXPERTS = {**GROUPED, "num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
STACKS = {
    "vocab_size": 256, "d_model": 128, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}
GPT2 = {"vocab_size": 256, "n_ctx": 64, "n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}
T5 = {
    "vocab_size": 256, "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 4,
    "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0,
}
PICTURES = {"image_size": 32, "patch_size": 16, "num_channels": 3}
TOWERS = {
    "projection_dim": 128,
    "text_config": {**SMALL, "projection_dim": 128},
    "vision_config": {**WIDTH, **PICTURES, "projection_dim": 128},
}

# Kinds of inputs: tokens, tokens for encoder and decoder, images, images and tokens, or audio and tokens.
MODELS = {
    "LlamaForCausalLM": ("tokens", GROUPED),
    "MistralForCausalLM": ("tokens", GROUPED),
    "Qwen2ForCausalLM": ("tokens", GROUPED),
    "Qwen3ForCausalLM": ("tokens", GROUPED),
    "GemmaForCausalLM": ("tokens", GROUPED),
    "Gemma2ForCausalLM": ("tokens", GROUPED),
    "Gemma3ForCausalLM": ("tokens", GROUPED),
    "PhiForCausalLM": ("tokens", SMALL),
    "Phi3ForCausalLM": ("tokens", GROUPED),
    "Starcoder2ForCausalLM": ("tokens", GROUPED),
    "Olmo2ForCausalLM": ("tokens", GROUPED),
    "GraniteForCausalLM": ("tokens", GROUPED),
    "CohereForCausalLM": ("tokens", GROUPED),
    "StableLmForCausalLM": ("tokens", GROUPED),
    "Glm4ForCausalLM": ("tokens", GROUPED),
    "SmolLM3ForCausalLM": ("tokens", GROUPED),
    "MixtralForCausalLM": ("tokens", EXPERTS),
    "Qwen2MoeForCausalLM": ("tokens", {**EXPERTS, "shared_expert_intermediate_size": 128}),
    "Qwen3MoeForCausalLM": ("tokens", EXPERTS),
    "OlmoeForCausalLM": ("tokens", EXPERTS),
    "GPT2LMHeadModel": ("tokens", GPT2),
    "GPT2ForSequenceClassification": ("tokens", {**GPT2, "pad_token_id": 0}),
    "OpenAIGPTLMHeadModel": ("tokens", GPT2),
    "GPTBigCodeForCausalLM": ("tokens", GPT2),
    "GPTNeoForCausalLM": ("tokens", {**SMALL, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}),
    "GPTNeoXForCausalLM": ("tokens", SMALL),
    "GPTJForCausalLM": ("tokens", {**GPT2, "rotary_dim": 16}),
    "CodeGenForCausalLM": ("tokens", {**GPT2, "rotary_dim": 16}),
    "OPTForCausalLM": ("tokens", {**SMALL, "ffn_dim": 256, "word_embed_proj_dim": 128}),
    "BloomForCausalLM": ("tokens", {"vocab_size": 256, "hidden_size": 128, "n_layer": 2, "n_head": 4}),
    "FalconForCausalLM": ("tokens", SMALL),
    "MptForCausalLM": ("tokens", {"vocab_size": 256, "d_model": 128, "n_layers": 2, "n_heads": 4, "expansion_ratio": 2, "max_seq_len": 64}),
    "MambaForCausalLM": ("tokens", {"vocab_size": 256, "hidden_size": 128, "num_hidden_layers": 2, "state_size": 16, "time_step_rank": 32}),
    "T5ForConditionalGeneration": ("both", T5),
    "MT5ForConditionalGeneration": ("both", T5),
    "BartForConditionalGeneration": ("both", STACKS),
    "MarianMTModel": ("both", STACKS),
    "BertForMaskedLM": ("tokens", SMALL),
    "BertForSequenceClassification": ("tokens", SMALL),
    "BertModel": ("tokens", SMALL),
    "RobertaForMaskedLM": ("tokens", SMALL),
    "XLMRobertaForSequenceClassification": ("tokens", SMALL),
    "DistilBertForMaskedLM": ("tokens", {"vocab_size": 256, "dim": 128, "hidden_dim": 256, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64}),
    "ElectraForMaskedLM": ("tokens", {**SMALL, "embedding_size": 128}),
    "AlbertForMaskedLM": ("tokens", {**SMALL, "embedding_size": 128}),
    "DebertaForMaskedLM": ("tokens", SMALL),
    "DebertaV2ForSequenceClassification": ("tokens", SMALL),
    "ModernBertForMaskedLM": ("tokens", SMALL),
    "MPNetForMaskedLM": ("tokens", SMALL),
    "ViTForImageClassification": ("pictures", {**WIDTH, **PICTURES}),
    "CLIPModel": ("pictures and tokens", TOWERS),
    "CLIPTextModelWithProjection": ("tokens", {**SMALL, "projection_dim": 128}),
    "SiglipModel": ("pictures and tokens", {key: value for key, value in TOWERS.items() if key != "projection_dim"}),
    "WhisperForConditionalGeneration": ("sounds", {**STACKS, "num_mel_bins": 16, "max_source_positions": 32, "max_target_positions": 64}),
    "Wav2Vec2ForCTC": ("waves", {**SMALL, "conv_dim": [32, 32], "conv_stride": [5, 2], "conv_kernel": [10, 3], "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}),
}


def make(name, dtype, folder):
    """Saves a model of this class, all of whose matrices have random values of one magnitude."""
    import transformers

    cls = getattr(transformers, name)
    torch.manual_seed(7)
    config = cls.config_class(**MODELS[name][1])
    model = cls(config)
    for _, parameter in model.named_parameters():
        if parameter.dim() >= 2:
            parameter.data.normal_(0, parameter.shape[-1] ** -0.5)
        else:
            parameter.data.add_(torch.randn_like(parameter) * 0.05)
    model.to(dtype).save_pretrained(folder)


def question(kind, dtype):
    """The input of a model."""
    torch.manual_seed(11)
    tokens = torch.tensor([[1, 5, 9, 200, 31, 7, 77, 150]])
    pictures = torch.randn(1, 3, 32, 32).to(dtype)
    match kind:
        case "tokens":
            return {"input_ids": tokens}
        case "both":
            return {"input_ids": tokens, "decoder_input_ids": tokens.flip(1)}
        case "pictures":
            return {"pixel_values": pictures}
        case "pictures and tokens":
            return {"input_ids": tokens, "pixel_values": pictures}
        case "sounds":
            return {"input_features": torch.randn(1, 16, 64).to(dtype), "decoder_input_ids": tokens}
        case "waves":
            return {"input_values": torch.randn(1, 800).to(dtype)}


def answer(model, kind, dtype):
    """The output of a model: logits, or its last hidden state."""
    said = model(**question(kind, dtype))
    if getattr(said, "image_embeds", None) is not None:
        return torch.cat([said.text_embeds, said.image_embeds]).float()
    for name in ("logits", "text_embeds", "last_hidden_state"):
        if getattr(said, name, None) is not None:
            return getattr(said, name).float()
    raise ValueError(f"no answer in {list(said.keys())}")
